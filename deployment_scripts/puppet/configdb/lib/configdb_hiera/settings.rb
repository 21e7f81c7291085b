# The backend's settings: one YAML file, for its owner alone since it may hold a password.
require 'yaml'

module ConfigdbHiera
  class Settings
    FILE = '/etc/configdb-sync/hiera.yaml'
    CACHE = '/var/cache/configdb-sync-hiera'
    DEFAULTS = {
      'environment' => nil,
      'levels' => 'nodes=%{uid}',
      'url' => nil,
      'fallback_url' => nil,
      'auth' => 'keystone',
      'token_file' => nil,
      'login' => {},
      'ca_file' => nil,
      'insecure' => false,
      'ttl' => 300,
      'retry' => 60,
      'timeout' => 10,
      'time_limit' => 30,
      'max_bytes' => 64 * 1024 * 1024,
      'when_away' => 'last-known',
      'cache' => nil,
      'datadir' => nil,
      'files' => [],
      'data_sources' => {}
    }.freeze
    TEXTS = %w[levels url fallback_url auth token_file ca_file when_away cache datadir].freeze
    LOGIN = %w[auth_url username password project user_domain project_domain region interface].freeze
    NUMBERS = { 'ttl' => 0, 'retry' => 0, 'timeout' => 1, 'time_limit' => 1, 'max_bytes' => 1 }.freeze
    CHOICES = { 'auth' => %w[keystone token none], 'when_away' => %w[last-known error] }.freeze
    # http or https, a host, and no login, query or fragment.
    ADDRESS = %r{\Ahttps?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[!-~&&[^?#@]]*)?\z}
    LEVEL = /\A\s*([^=,\s]+)\s*=\s*([^,]+?)\s*\z/

    DEFAULTS.each_key { |name| define_method(name) { @values[name] } }

    # Reads a settings file; `more` (by name) goes before it. Raises SettingsError.
    def self.load(path, more = {})
      text = PrivateFiles.read(path, 'the settings file')
      values = begin
        YamlFiles.parse(text)
      rescue YamlFiles::UnreadableError => error
        raise SettingsError, "the settings file #{path} isn't YAML#{error.message}"
      end
      raise SettingsError, "the settings file #{path} is no mapping" unless values.is_a?(Hash) || values.nil?
      new((values || {}).merge(more), path)
    end

    # `values` by name; `place` is what errors call it. Raises SettingsError.
    def initialize(values, place)
      @place = place
      unknown = values.keys.map(&:to_s) - DEFAULTS.keys
      refuse("has no setting #{unknown.first.inspect}") unless unknown.empty?
      @values = DEFAULTS.merge(values.reject { |_, value| value.nil? })
      check_texts
      check_choices
      check_address
      check_login
      check_lists
      @values['cache'] ||= default_cache
    end

    # Never shows a value.
    def inspect
      "#<#{self.class} #{@place}>"
    end
    alias to_s inspect

    # Returns hierarchy levels as pairs of a name and a text that may have placeholders. Raises SettingsError.
    def level_pairs(text = levels)
      text.split(',').map do |item|
        found = LEVEL.match(item) or refuse("levels: #{item.inspect} isn't like nodes=%{uid}")
        [found[1], found[2]]
      end
    end

    # Returns what tells one ConfigDB from another, without a secret.
    def origin
      [url, fallback_url, login['auth_url'], login['region'], environment]
    end

    private

    # A text loses the blanks at its ends; what is then empty is as good as missing.
    def check_texts
      TEXTS.each do |name|
        next if DEFAULTS[name].equal?(@values[name])
        @values[name] = Texts.plain(@values[name]) { |why| refuse("#{name} #{why}") } || DEFAULTS[name]
      end
      refuse('login is no mapping') unless login.is_a?(Hash)
      found = login.map do |name, value|
        kind = name == 'password' ? :secret : :plain
        [name, Texts.send(kind, value) { |why| refuse("login.#{name.to_s[0, 40]} #{why}") }]
      end
      @values['login'] = Hash[found.reject { |_, value| value.nil? }]
    end

    def check_choices
      CHOICES.each do |name, allowed|
        refuse("#{name} is none of #{allowed.join(', ')}") unless allowed.include?(@values[name])
      end
      NUMBERS.each do |name, least|
        value = @values[name]
        refuse("#{name} is no number from #{least} on") unless value.is_a?(Numeric) && value >= least
      end
      refuse('insecure is neither true nor false') unless [true, false].include?(insecure)
      refuse('environment is no number of an environment') unless environment.to_s =~ /\A[1-9][0-9]{0,17}\z/
      refuse('levels is no text') unless levels.is_a?(String)
      level_pairs
      %w[token_file ca_file cache datadir].each { |name| refuse("#{name} is no path") unless path?(@values[name]) }
      refuse('auth is token, and token_file is missing') if auth == 'token' && token_file.nil?
      refuse("ca_file #{ca_file} can't be read") unless ca_file.nil? || File.readable?(ca_file)
    end

    def path?(value)
      value.nil? || (value.is_a?(String) && value.start_with?('/') && !value.include?("\0"))
    end

    def check_address
      %w[url fallback_url].each { |name| address(name, @values[name]) unless @values[name].nil? }
      refuse('url is missing: where is ConfigDB?') if auth != 'keystone' && url.nil?
    end

    # Nothing of it is shown: it may hold a password.
    def address(name, text)
      return if text.is_a?(String) && text =~ ADDRESS
      refuse("#{name} holds a login; write it below login:") if text.is_a?(String) && text =~ %r{\Ahttps?://[^/]*@}
      refuse("#{name} isn't like https://host:port/path")
    end

    def check_login
      unknown = login.keys.map(&:to_s) - LOGIN
      refuse("login has no #{unknown.first.inspect}; there are #{LOGIN.join(', ')}") unless unknown.empty?
      return unless auth == 'keystone'
      %w[auth_url username password].each { |name| refuse("login lacks #{name}") if login[name].to_s.empty? }
      address('auth_url', login['auth_url'])
    end

    def check_lists
      refuse('files is no list of names') unless files.is_a?(Array) && files.all? { |item| item.is_a?(String) }
      pairs = data_sources
      good = pairs.is_a?(Hash) && pairs.all? { |name, path| name.is_a?(String) && path.is_a?(String) }
      refuse('data_sources is no mapping of names to paths') unless good
    end

    def default_cache
      return CACHE if Process.euid == 0
      home = ENV['HOME'].to_s
      refuse("cache is missing, and there is no HOME to keep it below") unless home.start_with?('/')
      File.join(home, '.cache', 'configdb-sync-hiera')
    end

    def refuse(why)
      raise SettingsError, "#{@place}: #{why}"
    end
  end
end
