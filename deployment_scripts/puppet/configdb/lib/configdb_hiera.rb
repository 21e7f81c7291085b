# Hiera's access to ConfigDB: what both the backend of Hiera 1 to 3 and the function of Hiera 5 are made of.
#
# Ruby 1.9.3 to 3.3, standard library alone. docs/hiera.md says how it behaves.
module ConfigdbHiera
  HERE = File.join(File.expand_path('..', __FILE__), 'configdb_hiera')
  # Ruby's libraries for the network take as long to load as many a Puppet run's lookups; mostly nothing is asked.
  autoload :Http, File.join(HERE, 'http.rb')
  autoload :Keystone, File.join(HERE, 'keystone.rb')
end

%w[errors private_files texts settings names form yaml_files json api cache place lookup].each do |name|
  require File.join(ConfigdbHiera::HERE, name)
end
