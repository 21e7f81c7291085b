# The backend's own code, call by call: one JSON object a line in, one out. A clock can be set forward.
require 'json'
require_relative '../hiera/nodes_calendar'

library = File.expand_path('../../../deployment_scripts/puppet/configdb/lib', __FILE__)
$LOAD_PATH.unshift(library)
require 'configdb_hiera'
require 'configdb_hiera/setup'

# As tests/hiera/ruby_oracle.rb tells values.
def told(value)
  case value
  when nil, true, false then value
  when Integer then { 'i' => value.to_s }
  when Float then { 'f' => [value].pack('G').unpack('H*')[0] }
  when String then { 's' => value }
  when Symbol then { 'y' => value.to_s }
  when Date then { 'd' => value.to_s }
  when Time then { 't' => [value.to_r.to_s, value.utc_offset, value.utc?] }
  when Array then { 'a' => value.map { |item| told(item) } }
  when Hash then { 'h' => value.map { |key, item| [told(key), told(item)] } }
  else { 'x' => value.class.name }
  end
end

class Driver
  include ConfigdbHiera

  def initialize
    @sessions = {}
    @said = []
  end

  def hiera_yaml(asked)
    text = asked['text'].dup.force_encoding('UTF-8')
    return Setup::HieraYaml.removed(text) if asked['action'] == 'removed'
    Setup::HieraYaml.inserted(text, asked['action'] == 'beside')
  end

  def parse(asked)
    told(YamlFiles.parse(asked['yaml']))
  end

  # A document as ConfigDB has it, with the types of a file; beside it what the file itself gives.
  def form(asked)
    file = YamlFiles.parse(asked['yaml'])
    { 'typed' => told(Form.document(JSON.parse(asked['json']), Form.marks(file))), 'file' => told(file) }
  end

  # A value with marks that are given.
  def typed(asked)
    told(Form.typed(JSON.parse("[#{asked['json']}]")[0], asked['marks']))
  end

  def names(asked)
    made = Names.new(asked['more'] || {})
    asked['paths'].map { |path| made.of(path) }
  end

  def defaults(_asked)
    Settings::DEFAULTS
  end

  def settings(asked)
    found = Settings.load(asked['settings'])
    { 'cache' => found.cache, 'levels' => found.level_pairs, 'shown' => [found.inspect, found.to_s] }
  end

  # The data of levels of a hierarchy. `session`: what is remembered in memory; `ahead`: seconds the clock is ahead.
  def data(asked)
    lookup = @sessions[asked['session']] ||= begin
      clock = lambda { Time.now.to_f + @ahead }
      Lookup.new(Settings.load(asked['settings']), clock, lambda { |text| @said << text })
    end
    @ahead = asked['ahead'] || 0
    place = lookup.place { |text| asked['place'] || text }
    asked['levels'].map { |level| told(lookup.data(level, place, asked['datadir'])) }
  end

  def answer(asked)
    @said.clear
    { 'ok' => send(asked['call'], asked), 'said' => @said }
  rescue ConfigdbHiera::Error, YamlFiles::UnreadableError => error
    { 'error' => error.class.name.split('::').last, 'text' => error.message, 'said' => @said }
  rescue StandardError => error
    { 'error' => "unforeseen #{error.class}", 'text' => error.full_message(:highlight => false), 'said' => @said }
  end
end

driver = Driver.new
$stdout.sync = true
while (line = $stdin.gets)
  puts JSON.generate(driver.answer(JSON.parse(line, :max_nesting => 0)), :max_nesting => 0, :ascii_only => true)
end
