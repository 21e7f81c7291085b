# `hiera_backend on` and `off`: what the plugin's tasks do on a node. The last line says what came of it.
%w[hiera_yaml node installation].each { |name| require File.join(File.expand_path('../setup', __FILE__), name) }

module ConfigdbHiera
  module Setup
    DATADIR = '/etc/hiera'
    USAGE = 'usage: hiera_backend on|off [--root FOLDER]'

    # Returns the exit code.
    def self.main(arguments, out = $stdout)
      action, root = parsed(arguments)
      return usage(out) if action.nil?
      send("turn_#{action}", Installation.new(root), out)
      0
    rescue Error, SystemCallError => error
      out.puts "failed: #{error.is_a?(Error) ? error.message : "this node's files: #{error.class.name.split('::').last}"}"
      1
    end

    def self.parsed(arguments)
      action, *rest = arguments
      return nil unless %w[on off].include?(action)
      return [action, '/'] if rest.empty?
      rest.size == 2 && rest[0] == '--root' ? [action, rest[1]] : nil
    end

    def self.usage(out)
      out.puts USAGE
      2
    end

    # From 4.9 on Puppet takes no `:yaml:` in a hiera.yaml of version 3 whose backends don't name it.
    def self.wants_yaml?(version)
      !version.nil? && (version.split('.').map(&:to_i) <=> [4, 9]) >= 0
    end

    # Returns nil where Ruby has no Puppet.
    def self.puppet_version
      require 'puppet/version'
      Puppet.version
    rescue LoadError
      nil
    end

    # Looks at everything first and changes hiera.yaml last: a node that can't ask ConfigDB goes on with its files.
    def self.turn_on(installation, out)
      texts = installation.changed_hiera_yaml(wants_yaml?(puppet_version))
      installation.write_settings(Node.new(installation.below(DATADIR)).settings) unless installation.own_settings?
      installation.copy_code
      more = { 'cache' => installation.below(Settings::CACHE) }
      lookup = Lookup.new(Settings.load(installation.settings_file, more), Lookup::CLOCK, out.method(:puts))
      count = lookup.fetch_all(lookup.place { |text| text })
      installation.write_hiera_yaml(texts)
      out.puts "ok: Hiera asks ConfigDB; #{count} data sources are known here"
    rescue AwayError => error
      installation.restore_hiera_yaml
      out.puts "warning: #{error.message}; Hiera goes on with this node's files"
    end

    def self.turn_off(installation, out)
      installation.remove
      out.puts "ok: Hiera reads this node's files"
    end

    private_class_method :parsed, :usage, :puppet_version, :wants_yaml?, :turn_on, :turn_off
  end
end
