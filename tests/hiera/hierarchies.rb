# Which data sources Hiera 3 reads for each hiera.yaml.
#
# In: a JSON list of {"config": path, "scope": {...}} on standard input. Out: a JSON list of lists of names.
require 'json'
require 'hiera'

module Silent
  def self.warn(_text); end

  def self.debug(_text); end
end

answers = JSON.parse($stdin.read).map do |one|
  hiera = Hiera.new(:config => one['config'])
  Hiera.instance_variable_set(:@logger, Silent)
  found = []
  Hiera::Backend.datasources(one['scope']) { |source| found << source }
  hiera && found
end
puts JSON.generate(answers)
