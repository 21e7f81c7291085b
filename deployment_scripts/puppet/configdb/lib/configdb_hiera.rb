# Hiera's access to ConfigDB: what both the backend of Hiera 1 to 3 and the function of Hiera 5 are made of.
#
# Ruby 1.9.3 to 3.3, standard library alone. docs/hiera.md says how it behaves.
%w[errors private_files settings names form yaml_files http keystone api cache place lookup].each do |name|
  require File.join(File.expand_path('../configdb_hiera', __FILE__), name)
end
