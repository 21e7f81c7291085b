# What can go wrong. No text holds a secret, nor anything of a server's answer but its status.
module ConfigdbHiera
  class Error < StandardError; end

  # Something on this machine must be mended first: always an error, never covered by last known data.
  class SettingsError < Error; end

  # ConfigDB or Keystone can't be asked, refuses, or answers nonsense: last known data stands for it, if it is so set.
  class AwayError < Error; end
end
