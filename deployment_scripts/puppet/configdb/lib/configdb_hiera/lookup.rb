# What Hiera asks: the data of one level of its hierarchy. ConfigDB's effective data, or the node's own file where
# ConfigDB has none.
require 'digest'

module ConfigdbHiera
  class Lookup
    # Nodes whose data stays in memory; a Puppet master serves many.
    NODES = 32
    # Data folders whose levels are remembered.
    LEVELS = 32
    # And levels of each: some are named by classes.
    PATHS = 10_000
    NOTHING = {}.freeze

    Level = Struct.new(:name, :file, :by_file)
    Node = Struct.new(:levels, :place, :typed)
    CLOCK = lambda { Time.now.to_f }

    # Seconds after which the settings file is looked at again.
    LOOK = 1
    # Settings files that are remembered.
    FILES = 32
    # Seconds after which a warning is given again.
    AGAIN = 3600
    Kept = Struct.new(:stamp, :lookup, :looked_at)

    @kept = {}
    @guard = Mutex.new

    # Returns the Lookup of a settings file, made anew when the file has changed. `more`: settings that go before the
    # file's. The block is told warnings. Raises SettingsError.
    def self.for(path, more = {}, &warn)
      @guard.synchronize do
        kept = @kept[[path, more]]
        now = CLOCK.call
        return kept.lookup if kept && (now - kept.looked_at).between?(0, LOOK)
        stamp = YamlFiles.new.stamp(path)
        unless kept && kept.stamp == stamp && stamp
          @kept.shift if @kept.size >= FILES
          kept = @kept[[path, more]] = Kept.new(stamp, new(Settings.load(path, more), CLOCK, warn))
        end
        kept.looked_at = now
        kept.lookup
      end
    end

    attr_reader :settings

    def initialize(settings, clock, warn)
      @settings, @clock = settings, clock
      @told = {}
      @tell = warn
      @warn = method(:warn)
      @cache = Cache.new(settings.cache, @warn)
      @names = Names.new(settings.data_sources)
      @by_file = settings.files.map { |pattern| Names.regexp(pattern) }
      @files = YamlFiles.new
      @nodes, @levels, @marks = {}, {}, {}
      @guard = Mutex.new
    end

    # Returns the place in ConfigDB's URLs; the block fills in the placeholders of a text. `levels` goes before the
    # settings'. Raises SettingsError.
    def place(levels = nil)
      pairs = @settings.level_pairs(levels || @settings.levels)
      pairs.map { |name, text| "#{escaped(name)}/#{level_value(name, yield(text).to_s)}/" }.join
    end

    # Returns the data (a Hash) of the level `path` of a hierarchy, {} if there is none. `levels`: what `place` gave.
    # `datadir`: where the node's own files are, nil for nowhere. Raises Error.
    def data(path, levels, datadir = nil)
      @guard.synchronize do
        level = level_of(path, datadir)
        next NOTHING if level.nil?
        stamp = level.file && @files.stamp(level.file)
        unless level.by_file
          node = at(levels)
          found = node.place.document(level.name, stamp && stamp[2] + stamp[3] / 1e9)
          next typed(node, level, found, stamp) if found
        end
        stamp ? @files.read(level.file, stamp) : NOTHING
      end
    end

    # Asks for all documents of a place now; returns how many ConfigDB has. Raises Error.
    def fetch_all(levels)
      @guard.synchronize { at(levels).place.fetch_all }
    end

    private

    # Once in a while: a Puppet run makes hundreds of lookups.
    def warn(text)
      now = @clock.call
      return if @told[text] && (now - @told[text]).between?(0, AGAIN)
      @told.clear if @told.size > PATHS
      @told[text] = now
      @tell.call("configdb: #{text}")
    end

    def api
      @api ||= begin
        http = Http.new(@settings)
        Api.new(@settings, http, @settings.auth == 'keystone' ? Keystone.new(@settings, http, @cache, @clock) : nil)
      end
    end

    # What a level's path comes to, nil for one that leads nowhere. Asked for with each lookup, so it is remembered.
    def level_of(path, datadir)
      @levels = {} if @levels.size > LEVELS
      known = @levels[datadir] ||= {}
      return known[path] if known.key?(path)
      known.clear if known.size > PATHS
      known[path] = odd?(path) ? nil : made_level(path, datadir)
    end

    def made_level(path, datadir)
      name = @names.of(path)
      by_file = @by_file.any? { |pattern| pattern =~ path || pattern =~ name }
      Level.new(name, datadir && File.join(datadir, "#{path}.yaml"), by_file)
    end

    def odd?(path)
      path.empty? || path =~ /[\0-\x1f\\]/ || path.split('/', -1).any? { |step| ['', '.', '..'].include?(step) }
    end

    def at(levels)
      return @last if @last && @last.levels == levels
      found = @nodes.delete(levels)
      found ||= Node.new(levels, Place.new(@settings, method(:api), @cache, levels, @clock, @warn), {})
      @nodes.shift if @nodes.size >= NODES
      @last = @nodes[levels] = found
    end

    def typed(node, level, found, stamp)
      kept = node.typed[level.name]
      return kept[2] if kept && kept[0].equal?(found) && kept[1] == stamp
      result = Form.document(found, stamp ? marks(level.file, stamp) : {})
      node.typed[level.name] = [found, stamp, result]
      result
    end

    # Kept on disk too, so that not each process reads a large file for them.
    def marks(file, stamp)
      kept = @marks[file] ||= @cache.read(name = "marks-#{Digest::SHA256.hexdigest(file)}")
      return kept['marks'] if kept && kept['stamp'] == stamp && kept['marks'].is_a?(Hash)
      found = { 'stamp' => stamp, 'marks' => Form.marks(@files.read(file, stamp)) }
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
