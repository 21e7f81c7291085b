# What was last known, in private files: one JSON object a name, below one folder.
module ConfigdbHiera
  class Cache
    LARGEST = 256 * 1024 * 1024

    # `folder`: made when something is first written. `warn`: is told once what can't be kept or read.
    def initialize(folder, warn)
      @folder, @warn = folder, warn
    end

    # Returns what was kept by this name, nil if nothing was, or it can't be read by us alone.
    def read(name)
      path = path_of(name)
      return nil unless File.exist?(path)
      PrivateFiles.folder(@folder, 'the cache folder')
      text = PrivateFiles.read(path, 'the cached file', LARGEST).force_encoding('UTF-8')
      found = JSON.parse(text, :max_nesting => Json::NESTING + 2, :create_additions => false)
      found.is_a?(Hash) ? found : nil
    rescue JSON::ParserError
      # Half of a disk that was full, or somebody's editor: as if it weren't there.
      nil
    rescue SettingsError => error
      @warn.call("#{error.message}; it isn't used")
      nil
    end

    # Keeps an object; what can't be kept is told and no more, since the answer is at hand.
    def write(name, value)
      PrivateFiles.folder(@folder, 'the cache folder')
      PrivateFiles.write(path_of(name), JSON.generate(value, :max_nesting => Json::NESTING + 2))
    rescue SystemCallError => error
      @warn.call("the cache folder #{@folder} can't be written: #{PrivateFiles.reason(error)}")
    rescue SettingsError => error
      @warn.call("#{error.message}; nothing is cached")
    end

    private

    def path_of(name)
      File.join(@folder, "#{name}.json")
    end
  end
end
