# `configdb-sync hiera-backend remove`: this text goes to a node, behind those of the files that it needs, and is run there.
require 'json'

module ConfigdbHiera
  module Setup
    module Removal
      # Prints one line for `configdb_sync.nodes.hiera_backend`. `environment`: the number of the only environment whose nodes
      # are meant. `named`: `yes` if somebody named this node, so that it need not tell its environment. `action`: `remove`,
      # or `look` to change nothing.
      def self.main(root, environment, named, action, out = $stdout)
        answer = { 'environment' => nil, 'found' => [], 'own' => nil, 'error' => nil }
        begin
          installation = Installation.new(root)
          own = answer['environment'] = installation.environment
          if own.nil? || own.to_s == environment
            answer['own'] = installation.on_node(installation.settings_file) if installation.own_settings?
            answer['found'] = installation.traces
            wanted = action == 'remove' && !(own.nil? && named != 'yes')
            installation.remove if wanted && !answer['found'].empty?
          end
        rescue Error => error
          answer['error'] = error.message
        rescue SystemCallError => error
          answer['error'] = "its files: #{PrivateFiles.reason(error)}"
        end
        out.puts "configdb-sync 1 #{JSON.generate(answer)}"
      end
    end
  end
end
