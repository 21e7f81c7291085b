"""The pages in a real browser: nothing in them runs; all can use them, by keyboard alone, and without script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from tests.peers import browser
from tests.status_page.conftest import Shown
from tests.status_page.filled_environment import fill

GLOBALS = "/status/tenants/admin/environments/1/resources/globals?level=nodes=2"
PAGES = [
    "/status",
    "/status/environments/1",
    "/status/environments/7",
    "/status/environments/7/runs",
    "/status/environments/1/overrides",
    "/status/environments/1/findings",
    "/status/environments/1/lookup?key=hostile&node=2",
    GLOBALS,
    f"{GLOBALS}&show=history",
    "/status/tenants",
    "/status/tenants?recoverable=true",
    "/status/audit",
    "/status/environments/99",
]
PATIENCE = 60


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    reason = browser.unavailable()
    if reason:
        pytest.skip(reason)
    with browser.running(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def axe() -> str:
    found = browser.axe()
    if found is None:
        pytest.skip("axe-core can't be had here")
    return found


@pytest.fixture(scope="module")
def site(shown: Shown) -> str:
    fill(shown.state, 7, 8)
    return f"http://127.0.0.1:{shown.admin.port}"


def console(driver: Chrome) -> list[str]:
    """What the browser complains of, but for answers that aren't 200."""
    log = driver.get_log("browser")  # type: ignore[no-untyped-call]
    found = [entry["message"] for entry in log if entry["level"] in {"SEVERE", "WARNING"}]
    return [message for message in found if "Failed to load resource" not in message]


def sign_in(driver: Chrome, site: str, shown: Shown) -> None:
    driver.delete_all_cookies()
    driver.get(f"{site}/status")
    field = driver.find_element(By.NAME, "token")
    field.send_keys(shown.admin.token, Keys.ENTER)
    WebDriverWait(driver, PATIENCE).until(lambda one: one.title.startswith("Environments"))


@pytest.fixture(scope="module")
def signed_in(driver: Chrome, site: str, shown: Shown) -> Chrome:
    sign_in(driver, site, shown)
    return driver


@pytest.mark.parametrize("page", PAGES)
def test_nothing_breaks_the_policy_and_nothing_of_a_value_runs(signed_in: Chrome, site: str, page: str) -> None:
    signed_in.get(site + page)
    assert console(signed_in) == []
    assert "owned" not in signed_in.title
    assert signed_in.find_elements(By.CSS_SELECTOR, "img, iframe, object, embed, main script, main style") == []
    applied = signed_in.execute_script("return getComputedStyle(document.querySelector('header')).display")
    assert applied == "flex", "the product's own style has its effect"


def test_a_foreign_script_and_style_have_none(signed_in: Chrome, site: str) -> None:
    signed_in.get(f"{site}/status")
    signed_in.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
        "document.body.insertAdjacentHTML('beforeend',"
        ' \'<p id=x style="color: rgb(1, 2, 3)" onclick="ran = 1">x</p>\');'
        "document.getElementById('x').click();"
    )
    assert signed_in.execute_script("return window.ran") is None
    assert signed_in.execute_script("return getComputedStyle(x).color") != "rgb(1, 2, 3)"
    assert len(console(signed_in)) >= 2, "each try is reported"


def violations(driver: Chrome, axe: str) -> list[str]:
    driver.execute_script(axe)
    found: list[dict[str, Any]] = driver.execute_async_script(
        "const done = arguments[0];"
        "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
        ".then((told) => done(told.violations))"
    )
    return [f"{one['id']}: {json.dumps(one['nodes'][0]['target'])} {one['help']}" for one in found]


LOOKS = [
    *((page, "light") for page in ("/status/sign-in", *PAGES)),
    *((page, "dark") for page in ("/status/sign-in", *PAGES[2:8])),
]


@pytest.mark.parametrize(("page", "scheme"), LOOKS)
def test_everyone_can_read_it(signed_in: Chrome, site: str, axe: str, page: str, scheme: str) -> None:
    feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    signed_in.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
    signed_in.get(site + page)
    background = signed_in.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background)[:3])) < 60) is (scheme == "dark")
    assert violations(signed_in, axe) == []


def test_status_is_told_by_words_not_by_colour_alone(signed_in: Chrome, site: str) -> None:
    signed_in.get(f"{site}/status/environments/7")
    rows = signed_in.find_elements(By.CSS_SELECTOR, "#matrix tbody tr")
    assert [cell.get_attribute("textContent") for cell in rows[0].find_elements(By.TAG_NAME, "td")].count("ERROR") == 1
    assert "ACTIVE" in (rows[2].get_attribute("textContent") or "")
    shown = "return getComputedStyle(document.querySelector('#matrix td.ok a'), '::before').content"
    assert "✓" in signed_in.execute_script(shown)
    heads = signed_in.find_elements(By.CSS_SELECTOR, "#matrix th")
    assert {head.get_attribute("scope") for head in heads} == {"col", "row"}


@pytest.mark.parametrize("page", [*PAGES[:9], "/status/environments/1/runs"])
def test_a_narrow_screen_is_wide_enough(signed_in: Chrome, site: str, axe: str, page: str) -> None:
    narrow = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    signed_in.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    try:
        signed_in.get(site + page)
        assert signed_in.execute_script("return document.documentElement.scrollWidth") <= 390
        assert violations(signed_in, axe) == []
        if "environments/7" in page and "runs" not in page:
            cell = "return document.querySelector('#matrix tbody td.s').getBoundingClientRect().right"
            assert signed_in.execute_script(cell) <= 390, "statuses are in sight"
    finally:
        signed_in.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def press(driver: Chrome, *keys: str) -> None:
    ActionChains(driver).send_keys(*keys).perform()


def focused(driver: Chrome) -> Any:
    return driver.switch_to.active_element


def tab_to(driver: Chrome, text: str) -> None:
    """Press Tab until the focus is on what has this text; every stop on the way can be seen."""
    for _ in range(60):
        press(driver, Keys.TAB)
        here = focused(driver)
        outline = driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", here)
        assert outline != "none", f"the focus on {here.get_attribute('outerHTML')[:80]} can't be seen"
        if text in (here.get_attribute("textContent") or here.get_attribute("id") or ""):
            return
    raise AssertionError(f"no way leads to {text!r}")


def test_a_keyboard_is_enough(driver: Chrome, site: str, shown: Shown) -> None:
    driver.delete_all_cookies()
    driver.get(f"{site}/status/environments/7")
    WebDriverWait(driver, PATIENCE).until(lambda one: focused(one).get_attribute("name") == "token")
    press(driver, shown.admin.token, Keys.ENTER)
    WebDriverWait(driver, PATIENCE).until(lambda one: one.title.startswith("Environment 7"))
    press(driver, Keys.TAB)
    assert focused(driver).text == "Skip to the content"
    press(driver, Keys.ENTER)
    assert focused(driver).tag_name == "main"
    tab_to(driver, "All runs")
    press(driver, Keys.ENTER)
    WebDriverWait(driver, PATIENCE).until(lambda one: one.title.startswith("Runs"))
    tab_to(driver, "Environments")
    press(driver, Keys.ENTER)
    WebDriverWait(driver, PATIENCE).until(lambda one: one.title.startswith("Environments"))
    tab_to(driver, "Environment 1")
    press(driver, Keys.ENTER)
    WebDriverWait(driver, PATIENCE).until(lambda one: one.title.startswith("Environment 1"))
    tab_to(driver, "ACTIVE")
    tab_to(driver, "globals")
    press(driver, Keys.ENTER)
    WebDriverWait(driver, PATIENCE).until(lambda one: one.title.startswith("globals"))
    tab_to(driver, "Sign out")
    press(driver, Keys.ENTER)
    WebDriverWait(driver, PATIENCE).until(lambda one: one.title.startswith("Sign in"))
    assert driver.get_cookies() == []


def test_the_filter_works_with_script_and_without(driver: Chrome, site: str, shown: Shown) -> None:
    sign_in(driver, site, shown)
    page = f"{site}/status/environments/7"

    def rows() -> list[str]:
        found = driver.find_elements(By.CSS_SELECTOR, "#matrix tbody tr:not(.why) th")
        return [row.text.split(" ")[0].split("\n")[0] for row in found if row.is_displayed()]

    driver.get(page)
    press(driver, "/")
    press(driver, "NODE-3")
    WebDriverWait(driver, PATIENCE).until(lambda _: rows() == ["3"])
    assert driver.find_element(By.ID, "told").text == "1 shown"
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(page)
        driver.find_element(By.ID, "node").send_keys("node-3.", Keys.ENTER)
        WebDriverWait(driver, PATIENCE).until(lambda one: "node=node-3." in one.current_url)
        assert rows() == ["3"]
        driver.get(f"{page}?status=ERROR")
        assert rows() == ["3"]
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_cookie_isnt_for_scripts(signed_in: Chrome, site: str, shown: Shown) -> None:
    sign_in(signed_in, site, shown)
    (cookie,) = signed_in.get_cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/status")
    assert "expiry" not in cookie, "it ends with the browser"
    assert signed_in.execute_script("return document.cookie") == ""


@pytest.mark.long
def test_many_nodes_stay_usable(driver: Chrome, site: str, shown: Shown) -> None:
    fill(shown.state, 1000, 1000, runs=2)
    sign_in(driver, site, shown)
    driver.get(f"{site}/status/environments/1000")
    driver.execute_script("document.querySelector('#matrix tbody tr:last-child').scrollIntoView()")
    head = "return document.querySelector('#matrix thead th').getBoundingClientRect()"
    place = driver.execute_script(head)
    assert (round(place["top"]), 0 <= round(place["left"]) <= 24) == (0, True), "the heads stay in sight"
    rows = driver.find_elements(By.CSS_SELECTOR, "#matrix tbody tr:not(.why)")
    assert (len(rows), (rows[0].text or "").split()[0]) == (100, "3"), "the node that failed comes first"
    driver.find_element(By.LINK_TEXT, "More nodes").click()
    rows = driver.find_elements(By.CSS_SELECTOR, "#matrix tbody tr:not(.why)")
    assert (len(rows), (rows[0].text or "").split()[0]) == (100, "101")


def test_the_matrix_is_one_tab_stop_and_arrows_move_in_it(signed_in: Chrome, site: str) -> None:
    signed_in.get(f"{site}/status/environments/7")
    stops = "return [...document.querySelectorAll('#matrix tbody a')].filter((one) => one.tabIndex >= 0).length"
    assert signed_in.execute_script(stops) == 1
    signed_in.execute_script("document.querySelector('#matrix tbody a').focus()")
    cell = "const it = document.activeElement.closest('td'); "
    place = f"{cell} return [it.parentElement.cells[0].innerText, it.cellIndex]"
    first = signed_in.execute_script(place)
    press(signed_in, Keys.ARROW_RIGHT)
    assert signed_in.execute_script(place) == [first[0], 2]
    press(signed_in, Keys.ARROW_DOWN)
    below = signed_in.execute_script(place)
    assert (below[0] != first[0], below[1]) == (True, 2), "the line that says why is passed over"
    press(signed_in, Keys.ARROW_UP, Keys.ARROW_LEFT)
    assert signed_in.execute_script(place) == first
    press(signed_in, Keys.ARROW_LEFT)
    assert signed_in.execute_script(place) == first
    assert signed_in.execute_script(stops) == 1


def test_the_file_needs_no_service(driver: Chrome, shown: Shown, axe: str, tmp_path: Path) -> None:
    file = tmp_path / "status.html"
    assert shown.product("status", "--html", file, "--env", 1).code == 0
    driver.get(file.as_uri())
    assert console(driver) == []
    assert "owned" not in driver.title
    assert driver.find_elements(By.CSS_SELECTOR, "img, iframe, form") == []
    driver.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    assert violations(driver, axe) == []
    link = driver.find_element(By.CSS_SELECTOR, "#matrix td a")
    place = (link.get_attribute("href") or "").partition("#")[2]
    assert driver.find_element(By.ID, place).tag_name == "details"
