# The `data_hash` function of Hiera 5: the data of one level of the hierarchy, named by `uri`, as `yaml_data` would
# give it from the node's file. docs/hiera.md shows the hiera.yaml for it.
require 'date'
require File.join(File.expand_path('../../../..', __FILE__), 'configdb_hiera')

Puppet::Functions.create_function(:'configdb::data') do
  dispatch :data do
    param 'Struct[{uri=>String[1], Optional[config]=>String[1], Optional[levels]=>String[1], Optional[environment]=>Variant[Integer, String], Optional[datadir]=>String[1]}]', :options
    param 'Puppet::LookupContext', :context
  end

  argument_mismatch :missing_uri do
    param 'Hash', :options
    param 'Puppet::LookupContext', :context
  end

  def data(options, context)
    more = {}
    %w[environment datadir].each { |name| more[name] = options[name] if options[name] }
    lookup = ConfigdbHiera::Lookup.for(options['config'] || ConfigdbHiera::Settings::FILE, more) do |text|
      Puppet.warning(text)
    end
    place = lookup.place(options['levels']) { |text| context.interpolate(text) }
    plain(lookup.data(options['uri'], place, lookup.settings.datadir))
  rescue ConfigdbHiera::Error => error
    raise Puppet::DataBinding::LookupError, "configdb: #{error.message}"
  end

  def missing_uri(_options, _context)
    "'uri' or 'uris' must be declared in hiera.yaml for configdb::data; its options are config, levels, environment and datadir"
  end

  # What Puppet's language can hold: `yaml_data` makes strings of Symbols as keys too, and can't read dates at all.
  def plain(value)
    case value
    when Hash
      result = {}
      value.each { |key, item| result[plain_key(key)] = plain(item) }
      result
    when Array then value.map { |item| plain(item) }
    when Date, Time then text(value)
    else value
    end
  end

  def plain_key(key)
    case key
    when Symbol then key.to_s
    when Date, Time then text(key)
    else key
    end
  end

  def text(value)
    return value.strftime('%Y-%m-%d') unless value.is_a?(Time)
    value.utc? ? value.strftime('%Y-%m-%dT%H:%M:%SZ') : value.strftime('%Y-%m-%dT%H:%M:%S%z')
  end
end
