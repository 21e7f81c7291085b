# What the task puts on a node and takes away: the code where Ruby finds it, the settings, the line in hiera.yaml.
require 'fileutils'
require 'rbconfig'

module ConfigdbHiera
  module Setup
    class Installation
      SOURCE = File.expand_path('../../..', __FILE__)
      MARK = "# Written by configdb-sync's task; what you write instead stays. See docs/hiera.md.\n"
      HIERA_YAML = %w[/etc/hiera.yaml /etc/puppet/hiera.yaml /etc/puppetlabs/puppet/hiera.yaml].freeze
      # Where the folders with `site_ruby` are: a node's Ruby may have been another one when the code was copied.
      LIBRARIES = %w[/usr/local/lib /usr/local/lib/ruby /usr/local/share/ruby /usr/lib/ruby /usr/share/ruby].freeze
      CODE = %w[configdb_hiera.rb configdb_hiera hiera/backend/configdb_backend.rb].freeze
      # What a killed process left beside a file: of `replace`, and of PrivateFiles.
      TEMPORARY = /\.\d+\.(?:new|[0-9a-f]{1,8})\z/
      MOST_LINKS = 40

      # `root`: what all paths are below.
      def initialize(root)
        @root = root
        @library = RbConfig::CONFIG['sitelibdir']
        @settings_file = below(Settings::FILE)
      end

      attr_reader :settings_file

      # Returns where a path of the node lies on this machine. Links on the way are followed as on the node, so nothing
      # outside of the root is ever meant; the last part of the path may be a link. Raises SettingsError.
      def below(path)
        File.join(resolved(File.dirname(path)), File.basename(path))
      end

      # Returns the same without any link. Raises SettingsError.
      def resolved(path)
        found, left, links = '/', path.split('/'), 0
        until left.empty?
          step = left.shift
          next if step.empty? || step == '.'
          here = File.join(@root, found, step)
          if step == '..'
            found = File.dirname(found)
          elsif File.symlink?(here)
            raise SettingsError, "#{path} can't be used: its links lead in a circle" if (links += 1) > MOST_LINKS
            target = File.readlink(here)
            found = '/' if target.start_with?('/')
            left = target.split('/') + left
          else
            found = File.join(found, step)
          end
        end
        File.join(@root, found)
      end

      def copy_code
        code.each { |name| replace(below(File.join(@library, name)), File.binread(File.join(SOURCE, name)), 0644) }
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

      # Takes our line out of the hiera.yaml files.
      def restore_hiera_yaml
        write_hiera_yaml(hiera_yaml_files.map { |path| [path, HieraYaml.removed(File.binread(path))] })
      end

      # Returns what there is of the backend, as paths of the node. The owner's own settings aren't among it.
      def traces
        (hiera_yaml_traces + settings_traces + code_traces).map { |path| on_node(path) }.uniq
      end

      # Takes all of that away. Raises SettingsError if a line of hiera.yaml that isn't ours lists the backend (nothing is
      # done then), and if something can't be taken away.
      def remove
        by_hand = hiera_yaml_files.find { |path| HieraYaml.listed?(HieraYaml.removed(File.binread(path))) }
        if by_hand
          raise SettingsError, "#{on_node(by_hand)} lists configdb in a line that was written by hand; take it out first"
        end
        restore_hiera_yaml
        (temporary_hiera_yamls + settings_traces).each { |path| FileUtils.rm_rf(path, :secure => true) }
        remove_folder(File.dirname(@settings_file))
        remove_code
        left = traces
        raise SettingsError, "#{left.join(', ')} can't be taken away" unless left.empty?
      end

      # Returns the environment that the settings here name, or else what Fuel wrote; nil if neither says.
      def environment
        told = [[@settings_file, 'environment'], [resolved('/etc/hiera/astute.yaml'), 'deployment_id'],
                [resolved('/etc/hiera/cluster.yaml'), 'deployment_id']]
        told.each do |path, key|
          # One line, since these files can be large.
          found = File.file?(path) && File.binread(path)[/^#{key}:[ \t]*["']?(\d{1,18})["']?[ \t]*\r?$/, 1]
          return found.to_i if found
        end
        nil
      end

      # Returns a path as the node has it.
      def on_node(path)
        @root == '/' ? path : path[File.join(@root, '').size - 1..-1]
      end

      private

      def hiera_yaml_traces
        hiera_yaml_files.select { |path| HieraYaml.removed(File.binread(path)) != File.binread(path) } + temporary_hiera_yamls
      end

      def temporary_hiera_yamls
        hiera_yaml_files.flat_map { |path| temporaries(path) }
      end

      def settings_traces
        own = there?(@settings_file) && !own_settings? ? [@settings_file] : []
        own + temporaries(@settings_file) + [below(Settings::CACHE)].select { |path| there?(path) }
      end

      def code_traces
        libraries.flat_map do |library|
          paths = CODE.map { |name| below(File.join(library, name)) }
          paths.select { |path| there?(path) } + paths.flat_map { |path| temporaries(path) }
        end
      end

      def remove_code
        code_traces.each { |path| FileUtils.rm_rf(path) }
        libraries.each { |library| %w[hiera/backend hiera].each { |name| remove_folder(below(File.join(library, name))) } }
      end

      # Only if it is empty, and no link.
      def remove_folder(path)
        Dir.rmdir(path) if File.directory?(path) && !File.symlink?(path) && (Dir.entries(path) - %w[. ..]).empty?
      end

      def libraries
        found = LIBRARIES.flat_map do |above|
          %w[site_ruby vendor_ruby].flat_map do |name|
            folder = File.join(above, name)
            [folder] + entries(resolved(folder)).sort.map { |version| File.join(folder, version) }
          end
        end
        ([@library] + found).uniq
      end

      def temporaries(path)
        name = File.basename(path)
        folder = File.dirname(path)
        found = entries(folder).select { |entry| entry.start_with?(name) && entry[name.size..-1] =~ /\A#{TEMPORARY}/ }
        found.sort.map { |entry| File.join(folder, entry) }
      end

      def entries(folder)
        File.directory?(folder) ? Dir.entries(folder) - %w[. ..] : []
      end

      def there?(path)
        File.symlink?(path) || File.exist?(path)
      end

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
        HIERA_YAML.map { |path| resolved(path) }.select { |path| File.file?(path) }.uniq
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
