# The backend `configdb` of Hiera 1 to 3. Each level of the hierarchy is answered by ConfigDB or, where it has nothing
# there, by the YAML file that the backend `yaml` would read; so it stands in that one's place.
require File.join(File.expand_path('../../..', __FILE__), 'configdb_hiera')

class Hiera
  module Backend
    class Configdb_backend
      def initialize
        Hiera.debug('Hiera ConfigDB backend starting')
      end

      # Hiera 1 gives no context, and takes nil for "not found"; later ones want to be thrown a symbol.
      def lookup(key, scope, order_override, resolution_type, context = nil)
        found = false
        answer = nil
        each_level(scope, order_override) do |source, data|
          next unless data.include?(key)
          found = true
          Hiera.debug("Found #{key} in #{source}")
          value = parsed(data[key], scope, context)
          case resolution_type.is_a?(Hash) ? :hash : resolution_type
          when :array
            mismatch(key, 'Array', value) unless value.is_a?(Array) || value.is_a?(String)
            (answer ||= []) << value
          when :hash
            mismatch(key, 'Hash', value) unless value.is_a?(Hash)
            answer = merged(value, answer || {}, resolution_type)
          else
            answer = value
            break
          end
        end
        throw :no_such_key unless found || context.nil?
        answer
      end

      private

      def each_level(scope, order_override)
        own = Config[:configdb] || {}
        lookup = lookup_for(own)
        place = lookup.place(own[:levels]) { |text| text.include?('%{') ? Backend.parse_string(text, scope) : text }
        datadir = own[:datadir] ? Backend.datadir(:configdb, scope) : lookup.settings.datadir || Backend.datadir(:yaml, scope)
        Backend.datasources(scope, order_override) do |source|
          yield source, lookup.data(source, place, datadir)
        end
      end

      def lookup_for(own)
        more = own[:environment] ? { 'environment' => own[:environment] } : {}
        ConfigdbHiera::Lookup.for(own[:config] || ConfigdbHiera::Settings::FILE, more) { |text| Hiera.warn(text) }
      end

      def parsed(value, scope, context)
        context.nil? ? Backend.parse_answer(value, scope) : Backend.parse_answer(value, scope, {}, context)
      end

      def merged(value, answer, resolution_type)
        old = Backend.method(:merge_answer).arity == 2
        old ? Backend.merge_answer(value, answer) : Backend.merge_answer(value, answer, resolution_type)
      end

      def mismatch(key, wanted, value)
        raise Exception, "Hiera type mismatch for key '#{key}': expected #{wanted} and got #{value.class}"
      end
    end
  end
end
