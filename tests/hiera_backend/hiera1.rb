# The backend as Hiera 1.3 calls it: four arguments, nil for "not found", and helpers that take less than today's.
#
# In: {"settings": file, "levels": [...], "datadir": folder} on standard input. Out: what lookups gave, by name.
require 'json'

class Hiera
  module Config
    def self.[](name)
      { :configdb => { :config => ASKED['settings'] }, :yaml => { :datadir => ASKED['datadir'] } }[name]
    end
  end

  module Backend
    def self.datadir(backend, _scope)
      Config[backend][:datadir]
    end

    def self.datasources(_scope, override = nil)
      ([override] + ASKED['levels']).compact.each { |level| yield level }
    end

    def self.parse_answer(data, _scope, _extra = {})
      data
    end

    def self.parse_string(text, scope, _extra = {})
      text.gsub(/%\{(.*?)\}/) { scope[$1].to_s }
    end

    def self.merge_answer(left, right)
      left.merge(right)
    end
  end

  def self.debug(_text); end

  def self.warn(text)
    raise text
  end
end

ASKED = JSON.parse($stdin.read)
require 'hiera/backend/configdb_backend'
backend = Hiera::Backend::Configdb_backend.new
scope = { 'uid' => '1' }
puts JSON.generate(
  'debug' => backend.lookup('debug', scope, nil, :priority),
  'all' => backend.lookup('rates', scope, nil, :array),
  'nova' => backend.lookup('nova', scope, nil, :hash),
  'first' => backend.lookup('debug', scope, 'astute', nil),
  'file' => backend.lookup('own', scope, nil, nil),
  'nothing' => backend.lookup('nothing', scope, nil, nil)
)
