# What a Fuel node knows of itself and of the plugin's settings: from its base files, as Fuel wrote them.
module ConfigdbHiera
  module Setup
    class Node
      PLUGIN = 'configdb-sync'
      LAYOUTS = [%w[astute], %w[cluster node]].freeze
      # What tasks of the deployment write and others read before the next synchronisation.
      FILES = %w[
        override/configuration/default_route override/configuration/remove_ovs_usage nodes deleted_nodes old_admin_user
      ].freeze

      # `datadir`: the folder of Hiera's data. Raises SettingsError.
      def initialize(datadir)
        @datadir = datadir
        files = YamlFiles.new
        layout = LAYOUTS.find { |names| names.all? { |name| files.stamp(path_of(name)) } }
        refuse('has neither astute.yaml nor cluster.yaml and node.yaml; deploy the node') if layout.nil?
        @base = layout.map { |name| files.read(path_of(name)) }.reduce { |one, other| one.merge(other) }
        @section = mapping(@base, PLUGIN)
        @metadata = mapping(@section, 'metadata')
      end

      # Returns the backend's settings for this node, by name. Raises SettingsError.
      def settings
        found = {
          'environment' => number('deployment_id'), 'levels' => "nodes=#{fact('uid')}", 'datadir' => @datadir,
          'auth' => 'keystone', 'login' => login, 'files' => FILES + taken_out, 'data_sources' => data_sources
        }
        found.merge!(address)
        verify = @section['verify_tls']
        refuse("has #{PLUGIN}.verify_tls, which is neither true nor false") unless [nil, true, false].include?(verify)
        found['insecure'] = true if verify == false
        found['ca_file'] = text('ca_file') if text('ca_file')
        found
      end

      private

      def path_of(name)
        File.join(@datadir, "#{name}.yaml")
      end

      def address
        case text('configdb')
        when 'url' then { 'url' => text('configdb_url') || refuse('says that ConfigDB is at an address, and gives none') }
        when 'embedded'
          refuse('says that ConfigDB is on the master without a service; nodes can only ask one that is served')
        else { 'fallback_url' => "https://#{host}:#{port('nailgun_port', 8443)}/api/v1/config" }
        end
      end

      # A user of the nodes' own goes before the one that uploads.
      def login
        own = text('hiera_username')
        domain = text('default_domain', @metadata)
        found = {
          'auth_url' => text('auth_url') || "http://#{host}:#{port('keystone_port', 5000)}",
          'username' => own || text('username'), 'password' => secret(own ? 'hiera_password' : 'password'),
          'project' => text('project'), 'region' => text('region'), 'interface' => text('interface', @metadata),
          'user_domain' => domain, 'project_domain' => domain
        }
        %w[username password].each do |name|
          refuse("has no #{name} for the nodes; give one, or write #{Settings::FILE} yourself") unless found[name]
        end
        found.reject { |_, value| value.nil? }
      end

      # Those with a path of their own, written as a mapping or as `name=path`.
      def data_sources
        pairs = listed.map do |item|
          item.is_a?(Hash) ? [item['name'], item['path']] : item.to_s.split('=', 2).map(&:strip)
        end
        Hash[pairs.select { |name, path| name.is_a?(String) && path.is_a?(String) }]
      end

      # Those taken out of the synchronisation (`-name`): what ConfigDB may still have of them is old.
      def taken_out
        listed.map { |item| item.is_a?(String) ? item.strip[/\A-\s*(.+)/, 1] : nil }.compact
      end

      def listed
        @metadata['data_sources'].is_a?(Array) ? @metadata['data_sources'] : []
      end

      def host
        address = Texts.plain(@base['master_ip']) { |why| refuse("has a fact master_ip that #{why}") }
        refuse('has no fact master_ip') if address.nil?
        refuse("has a fact master_ip that can't be used") unless address =~ /\A[A-Za-z0-9._:-]+\z/
        address.include?(':') ? "[#{address}]" : address
      end

      def fact(name)
        value = @base[name].to_s
        refuse("has no fact #{name}") if value.empty?
        refuse("has a fact #{name} that can't be used") unless @base[name].is_a?(String) || @base[name].is_a?(Integer)
        refuse("has a fact #{name} that can't be used") unless value =~ /\A[A-Za-z0-9_.-]+\z/
        value
      end

      def number(name)
        Integer(fact(name), 10)
      rescue ArgumentError
        refuse("has a fact #{name} that is no number")
      end

      def text(name, section = @section)
        Texts.plain(section[name]) { |why| refuse("has #{PLUGIN}.#{name}, which #{why}") }
      end

      def secret(name)
        Texts.secret(@section[name]) { |why| refuse("has #{PLUGIN}.#{name}, which #{why}") }
      end

      def port(name, default)
        Texts.port(@metadata[name], default) { |why| refuse("has #{PLUGIN}.metadata.#{name}, which #{why}") }
      end

      def mapping(whole, name)
        found = whole[name]
        refuse("has #{name}, which is no mapping") unless found.nil? || found.is_a?(Hash)
        found || {}
      end

      def refuse(why)
        raise SettingsError, "#{@datadir} #{why}"
      end
    end
  end
end
