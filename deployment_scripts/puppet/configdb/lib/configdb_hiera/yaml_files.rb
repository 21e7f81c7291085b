# A node's own YAML files, as its Ruby reads them.
require 'date'
require 'yaml'

module ConfigdbHiera
  class YamlFiles
    # A text that isn't YAML, or holds what is no data; the message names the line, if it is known, and no value.
    class UnreadableError < StandardError; end

    CLASSES = [Symbol, Date, Time].freeze
    LARGEST = 64 * 1024 * 1024

    Entry = Struct.new(:stamp, :data)

    # Returns what a YAML text holds. Objects of a program are refused, where Psych can. Raises UnreadableError.
    def self.parse(text)
      text = text.dup.force_encoding('UTF-8')
      raise UnreadableError, ' (no UTF-8)' unless text.valid_encoding?
      return YAML.load(text) unless YAML.respond_to?(:safe_load)
      safely(text)
    rescue UnreadableError
      raise
    rescue Exception => error # Psych of Ruby 1.9 raises others than StandardError for what it can't read
      raise if [NoMemoryError, SignalException, SystemExit].any? { |kind| error.is_a?(kind) }
      raise UnreadableError, error.respond_to?(:line) ? ", line #{error.line}" : " (#{error.class})"
    end

    def self.safely(text)
      # Psych before 3.1 takes the two by their places.
      named = YAML.method(:safe_load).parameters.any? { |_, name| name == :permitted_classes }
      return YAML.safe_load(text, CLASSES, [], true) unless named
      YAML.safe_load(text, :permitted_classes => CLASSES, :aliases => true)
    end
    private_class_method :safely

    def initialize
      @entries = {}
    end

    # Returns what tells whether a file has changed, nil where there is none.
    def stamp(path)
      # Most levels of a hierarchy have no file, and an exception for each would be slow.
      return nil unless File.file?(path)
      found = File.stat(path)
      time = found.mtime
      [found.ino, found.size, time.to_i, time.nsec]
    rescue SystemCallError
      nil
    end

    # Returns a file's data, {} where there is none or it holds no mapping; read again when it has changed, by `now`,
    # its stamp. Raises SettingsError for one that can't be read.
    def read(path, now = stamp(path))
      return {} if now.nil?
      kept = @entries[path]
      return kept.data if kept && kept.stamp == now
      found = load(path, now)
      @entries[path] = Entry.new(now, found)
      found
    end

    private

    def load(path, stamp)
      raise SettingsError, "#{path} is larger than #{LARGEST} bytes" if stamp[1] > LARGEST
      found = self.class.parse(File.open(path, 'rb') { |file| file.read })
      found.is_a?(Hash) ? found : {}
    rescue SystemCallError => error
      raise SettingsError, "#{path} can't be read: #{PrivateFiles.reason(error)}"
    rescue UnreadableError => error
      raise SettingsError, "#{path} isn't YAML#{error.message}"
    end
  end
end
