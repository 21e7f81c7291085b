# Looks every key up through Puppet's own Hiera 5, in pairs of environments, and tells where they differ.
#
# In: JSON on standard input: {"environments": folder, "modules": folder, "work": folder, "cases": [{"one": environment,
# "other": environment, "facts": {...}, "keys": [...], "merges": [...]}]}.
# With "answers": true only "one" is asked. Out: for each case, merge and key {"value": ...}, {"raised": text} or {}.
# Out: {"lookups": how many, "differences": [...], "errors": how many of the answers are errors}.
require 'json'
require 'puppet'
require 'puppet/parser/compiler'
require File.expand_path('../same', __FILE__)

class Lookups
  def initialize(asked)
    work = asked['work']
    Puppet.initialize_settings(
      ['--confdir', "#{work}/conf", '--vardir', "#{work}/var", '--environmentpath', asked['environments'],
       '--basemodulepath', asked['modules'], '--strict', 'warning', '--log_level', 'warning']
    )
    Puppet.push_context(Puppet.base_context(Puppet.settings))
  end

  def answers(name, one)
    environment = Puppet.lookup(:environments).get!(name)
    node = Puppet::Node.new('node', :environment => environment, :facts => Puppet::Node::Facts.new('node', one['facts']))
    node.merge(one['facts'])
    node.trusted_data = { 'certname' => 'node', 'extensions' => {} }
    Puppet.override(:current_environment => environment, :trusted_information => Puppet::Context::TrustedInformation.new(false, 'node', {})) do
      compiler = Puppet::Parser::Compiler.new(node)
      compiler.send(:set_node_parameters)
      Puppet.override(compiler.context_overrides, 'for the lookups') do
        invocation = Puppet::Pops::Lookup::Invocation.new(compiler.topscope)
        one['merges'].flat_map { |merge| one['keys'].map { |key| [key, merge, answer(key, merge, invocation)] } }
      end
    end
  end

  private

  def answer(key, merge, invocation)
    Puppet::Pops::Lookup.lookup(key, nil, :missing, true, merge, invocation)
  rescue StandardError => error
    [:raised, error.class.name, error.message.gsub(/\S*yaml_data\S*|\S*configdb::data\S*/, '...')]
  end
end

asked = JSON.parse($stdin.read)
lookups = Lookups.new(asked)
if asked['answers']
  found = asked['cases'].map do |one|
    lookups.answers(one['one'], one).map { |_, _, value| value == :missing ? {} : value.is_a?(Array) && value[0] == :raised ? { 'raised' => value[2] } : { 'value' => value } }
  end
  puts JSON.generate(found)
  exit
end
count = errors = 0
differences = []
asked['cases'].each_with_index do |one, index|
  first, second = %w[one other].map { |name| lookups.answers(one[name], one) }
  first.zip(second).each do |(key, merge, a), (_, _, b)|
    count += 1
    errors += 1 if b.is_a?(Array) && b[0] == :raised
    differences << [index, key, merge, a.inspect[0, 300], b.inspect[0, 300]] unless same?(a, b) && a != :missing
  end
end
puts JSON.generate('lookups' => count, 'differences' => differences, 'errors' => errors)
