# Looks every key of some YAML files up through Hiera 1 to 3, by two settings of Hiera, and tells where they differ.
#
# In: a JSON list of cases on standard input, each {"one": hiera.yaml, "other": hiera.yaml, "scope": {...}, "keys": [...]}.
# Out: {"lookups": how many, "differences": [[case, key, kind, one, other], ...], "said": [warnings]}.
require 'date'
require 'json'
require 'hiera'

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

# A value with its types, so that nothing equal in part passes.
def told(value)
  case value
  when Hash then ['Hash'] + value.map { |key, item| [told(key), told(item)] }.sort_by(&:inspect)
  when Array then ['Array'] + value.map { |item| told(item) }
  when Float then ['Float', [value].pack('G').unpack('H*')]
  when Time then ['Time', value.to_r.to_s, value.utc_offset]
  else [value.class.name, value.inspect]
  end
end

def answer(hiera, key, scope, kind)
  told(hiera.lookup(key, :missing, scope, nil, kind))
rescue Exception => error
  ['raised', error.class.name, error.message]
end

def answers(config, one)
  hiera = Hiera.new(:config => config)
  Hiera.instance_variable_set(:@logger, Recorder)
  [:priority, :array, :hash].flat_map do |kind|
    one['keys'].map { |key| [key, kind, answer(hiera, key, one['scope'], kind)] }
  end
end

count = 0
differences = []
JSON.parse($stdin.read).each_with_index do |one, index|
  first, second = %w[one other].map { |name| answers(one[name], one) }
  first.zip(second).each do |(key, kind, a), (_, _, b)|
    count += 1
    differences << [index, key, kind, a.inspect[0, 300], b.inspect[0, 300]] unless a == b
  end
end
puts JSON.generate('lookups' => count, 'differences' => differences, 'said' => SAID)
