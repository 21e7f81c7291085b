# What the task lays on a node, and takes away: the code where Ruby finds it, the settings, the line in hiera.yaml.
require 'fileutils'
require 'rbconfig'

module ConfigdbHiera
  module Setup
    class Installation
      SOURCE = File.expand_path('../../..', __FILE__)
      MARK = "# Written by configdb-sync's task; what you write instead stays. See docs/hiera.md.\n"
      HIERA_YAML = %w[/etc/hiera.yaml /etc/puppet/hiera.yaml /etc/puppetlabs/puppet/hiera.yaml].freeze

      # `root`: what all paths are below.
      def initialize(root)
        @root = root
        @library = below(RbConfig::CONFIG['sitelibdir'])
        @settings_file = below(Settings::FILE)
      end

      attr_reader :settings_file

      def below(path)
        @root == '/' ? path : File.join(@root, path)
      end

      def copy_code
        code.each { |name| replace(File.join(@library, name), File.binread(File.join(SOURCE, name)), 0644) }
      end

      # Raises SettingsError for a file that others can read.
      def write_settings(values)
        return if own_settings?
        PrivateFiles.folder(File.dirname(@settings_file), 'the settings folder')
        content = MARK + YAML.dump(values)
        PrivateFiles.write(@settings_file, content) unless kept_settings == content.dup.force_encoding('BINARY')
      end

      # Whether the settings are the operator's.
      def own_settings?
        File.exist?(@settings_file) && !File.binread(@settings_file).start_with?(MARK)
      end

      # Returns the new texts of the hiera.yaml files by path. Raises SettingsError if there is none, or one can't be
      # changed; nothing is written.
      def changed_hiera_yaml(beside)
        files = hiera_yaml_files
        raise SettingsError, "there is no hiera.yaml: #{HIERA_YAML.join(', ')}" if files.empty?
        files.map { |path| [path, located(path) { HieraYaml.inserted(File.binread(path).force_encoding('UTF-8'), beside) }] }
      end

      def write_hiera_yaml(texts)
        texts.each { |path, text| replace(path, text) unless File.binread(path) == text.dup.force_encoding('BINARY') }
      end

      def restore_hiera_yaml
        write_hiera_yaml(hiera_yaml_files.map { |path| [path, HieraYaml.removed(File.binread(path))] })
      end

      def remove_code
        code.each { |name| FileUtils.rm_f(File.join(@library, name)) }
        %w[configdb_hiera hiera/backend hiera].each do |name|
          folder = File.join(@library, name)
          Dir.rmdir(folder) if File.directory?(folder) && (Dir.entries(folder) - %w[. ..]).empty?
        end
      end

      def remove_settings
        FileUtils.rm_f(@settings_file) unless own_settings?
        FileUtils.rm_rf(below(Settings::CACHE), :secure => true)
      end

      private

      def kept_settings
        PrivateFiles.read(@settings_file, 'the settings file')
      rescue SettingsError
        nil
      end

      # Without the part that is here.
      def code
        found = Dir.glob(File.join(SOURCE, '{configdb_hiera.rb,configdb_hiera/*.rb,hiera/backend/*.rb}'))
        found.map { |path| path[SOURCE.size + 1..-1] }.sort
      end

      # A link is kept: what it leads to is the file.
      def hiera_yaml_files
        HIERA_YAML.map { |path| below(path) }.select { |path| File.file?(path) }.map { |path| File.realpath(path) }.uniq
      end

      def located(path)
        yield
      rescue SettingsError => error
        raise SettingsError, "#{path}: #{error.message}"
      end

      # In one step, with owner and mode as they were.
      def replace(path, content, mode = nil)
        FileUtils.mkdir_p(File.dirname(path))
        found = File.exist?(path) ? File.stat(path) : nil
        temporary = "#{path}.#{Process.pid}.new"
        File.open(temporary, File::WRONLY | File::CREAT | File::EXCL, 0600) do |file|
          file.binmode
          file.write(content)
          file.chown(found.uid, found.gid) if found
          file.chmod(mode || found.mode & 07777)
        end
        File.rename(temporary, path)
      ensure
        FileUtils.rm_f(temporary) if temporary
      end
    end
  end
end
