# Looks every key of some YAML files up through Hiera 3, by two settings of Hiera, and tells where they differ.
#
# In: a JSON list of cases on standard input, each {"one": hiera.yaml, "other": hiera.yaml, "scope": {...}, "keys": [...]}.
# In {"answers": cases} only "one" is asked. Out: for each case a list of [key, kind, value].
# Out: {"lookups": how many, "differences": [[case, key, kind, one, other], ...], "said": [warnings]}.
require 'date'
require 'json'
require 'hiera'
require File.expand_path('../same', __FILE__)

# As it reads with the Rubies of Fuel's nodes: the files hold aliases, which Psych 4 wants to be asked for.
def YAML.load(text, **)
  unsafe_load(text)
end

SAID = []

module Recorder
  def self.warn(text)
    SAID << text
  end

  def self.debug(_text); end
end

# Which lookups make sense for a value: Hiera raises for the others.
KINDS = { Hash => [:priority, :hash], Array => [:priority, :array], String => [:priority, :array] }

def answer(hiera, key, scope, kind)
  hiera.lookup(key, :missing, scope, nil, kind)
rescue Exception => error
  [:raised, error.class.name, error.message]
end

def answers(config, one)
  hiera = Hiera.new(:config => config)
  Hiera.instance_variable_set(:@logger, Recorder)
  one['keys'].each_with_object({}) do |key, found|
    first = answer(hiera, key, one['scope'], :priority)
    found[[key, :priority]] = first
    (KINDS[first.class] || []).each { |kind| found[[key, kind]] ||= answer(hiera, key, one['scope'], kind) }
  end
end

asked = JSON.parse($stdin.read)
if asked.is_a?(Hash)
  all = asked['answers'].map { |one| answers(one['one'], one).map { |(key, kind), value| [key, kind, value.is_a?(Array) && value[0] == :raised ? 'raised' : value] } }
  puts JSON.generate(all)
  exit
end
count = 0
differences = []
asked.each_with_index do |one, index|
  first, second = %w[one other].map { |name| answers(one[name], one) }
  (first.keys | second.keys).each do |asked|
    count += 1
    a, b = first[asked], second[asked]
    good = same?(a, b) && first.key?(asked) && second.key?(asked) && a != :missing
    differences << [index, *asked, a.inspect[0, 300], b.inspect[0, 300]] unless good
  end
end
puts JSON.generate('lookups' => count, 'differences' => differences, 'said' => SAID)
