# What Hiera asks: the data of one level of its hierarchy. ConfigDB's effective data, or the node's own file where
# ConfigDB has none.
require 'digest'

module ConfigdbHiera
  class Lookup
    # Nodes whose data stays in memory; a Puppet master serves many.
    PLACES = 32
    CLOCK = lambda { Time.now.to_f }

    @kept = {}
    @guard = Mutex.new

    # Returns the Lookup of a settings file, made anew when the file has changed. `more`: settings that go before the
    # file's. The block is told warnings. Raises SettingsError.
    def self.for(path, more = {}, &warn)
      @guard.synchronize do
        stamp = YamlFiles.new.stamp(path)
        kept = @kept[[path, more]]
        return kept[1] if kept && kept[0] == stamp && !stamp.nil?
        made = new(Settings.load(path, more), CLOCK, warn)
        @kept[[path, more]] = [stamp, made]
        made
      end
    end

    attr_reader :settings

    def initialize(settings, clock, warn)
      @settings, @clock = settings, clock
      @told = {}
      @warn = lambda { |text| @told[text] ||= warn.call("configdb: #{text}") || true }
      @cache = Cache.new(settings.cache, @warn)
      http = Http.new(settings)
      keystone = settings.auth == 'keystone' ? Keystone.new(settings, http, @cache, clock) : nil
      @api = Api.new(settings, http, keystone)
      @names = Names.new(settings.data_sources)
      @by_file = settings.files.map { |pattern| Names.regexp(pattern) }
      @files = YamlFiles.new
      @places, @typed, @marks = {}, {}, {}
      @guard = Mutex.new
    end

    # Returns the place in ConfigDB's URLs; the block fills in the placeholders of a text. Raises SettingsError.
    def place
      @settings.level_pairs.map { |name, text| "#{escaped(name)}/#{level_value(name, yield(text).to_s)}/" }.join
    end

    # Returns the data (a Hash) of the level `path` of a hierarchy, {} if there is none. `levels`: what `place` gave.
    # `datadir`: where the node's own files are, nil for nowhere. Raises Error.
    def data(path, levels, datadir = nil)
      return {} if odd?(path)
      file = datadir && File.join(datadir, "#{path}.yaml")
      @guard.synchronize do
        stamp = file && @files.stamp(file)
        name = @names.of(path)
        found = by_file?(path, name) ? nil : at(levels).document(name, stamp && stamp[2] + stamp[3] / 1e9)
        next typed(levels, name, found, file, stamp) if found
        stamp ? @files.read(file) : {}
      end
    end

    # Asks for all documents of a place now; returns how many ConfigDB has. Raises Error.
    def fetch_all(levels)
      @guard.synchronize { at(levels).fetch_all }
    end

    private

    def odd?(path)
      path.empty? || path =~ /[\0-\x1f\\]/ || path.split('/', -1).any? { |step| ['', '.', '..'].include?(step) }
    end

    def by_file?(path, name)
      @by_file.any? { |pattern| pattern =~ path || pattern =~ name }
    end

    def at(levels)
      found = @places.delete(levels) || Place.new(@settings, @api, @cache, levels, @clock, @warn)
      forget(@places.keys.first) if @places.size >= PLACES
      @places[levels] = found
    end

    def forget(levels)
      @places.delete(levels)
      @typed.delete_if { |key, _| key[0] == levels }
    end

    def typed(levels, name, found, file, stamp)
      kept = @typed[[levels, name]]
      return kept[2] if kept && kept[0].equal?(found) && kept[1] == stamp
      result = Form.document(found, stamp ? marks(file, stamp) : {})
      @typed[[levels, name]] = [found, stamp, result]
      result
    end

    # Kept on disk too, so that not each process reads a large file for them.
    def marks(file, stamp)
      kept = @marks[file] ||= @cache.read(name = "marks-#{Digest::SHA256.hexdigest(file)}")
      return kept['marks'] if kept && kept['stamp'] == stamp && kept['marks'].is_a?(Hash)
      found = { 'stamp' => stamp, 'marks' => Form.marks(@files.read(file)) }
      @cache.write(name || "marks-#{Digest::SHA256.hexdigest(file)}", found)
      (@marks[file] = found)['marks']
    rescue SettingsError => error
      @warn.call("#{error.message}; what JSON lacks stays text")
      {}
    end

    def level_value(name, text)
      why = if text.empty? then 'is empty: what it is made of is not known here'
            elsif text.size > 128 then 'is longer than 128 characters'
            elsif text.include?('/') || text =~ /[\0-\x1f]/ || %w[. ..].include?(text) then "can't stand in an address"
            end
      raise SettingsError, "the value of the level #{name} #{why}; set levels" if why
      escaped(text)
    end

    def escaped(text)
      text.dup.force_encoding('BINARY').gsub(/[^A-Za-z0-9_.~-]/n) { |byte| format('%%%02X', byte.ord) }
    end
  end
end
