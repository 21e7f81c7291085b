# Files that hold secrets: read only if nobody else can, written for their owner alone.
module ConfigdbHiera
  module PrivateFiles
    LARGEST = 1024 * 1024

    # Returns the bytes of a file that is its owner's alone. `what` names it in errors. A link is followed if it and
    # what it leads to belong to this user or root. Raises SettingsError.
    def self.read(path, what, largest = LARGEST)
      link = File.lstat(path)
      refuse(path, what, "is another user's link, so it isn't followed") if link.symlink? && !ours?(link)
      # Opened before it is looked at, so that what is looked at is what is read; a FIFO must not hold us.
      File.open(path, File::RDONLY | File::NONBLOCK) do |file|
        check(path, what, file.stat, largest)
        file.binmode
        (file.read(largest + 1) || '').tap { |text| refuse(path, what, 'grew beyond the limit') if text.size > largest }
      end
    rescue SystemCallError => error
      raise SettingsError, "#{what} #{path} can't be read: #{reason(error)}"
    end

    # Writes a file of mode 0600 in one step: readers see the old content or the new one. Raises SystemCallError.
    def self.write(path, content)
      temporary = "#{path}.#{Process.pid}.#{rand(1 << 32).to_s(16)}"
      File.open(temporary, File::WRONLY | File::CREAT | File::EXCL, 0600) do |file|
        file.binmode
        file.write(content)
      end
      File.rename(temporary, path)
    rescue SystemCallError
      File.unlink(temporary) if File.exist?(temporary)
      raise
    end

    # Makes a folder of mode 0700, with those above it, or checks the one that is there. Raises SettingsError.
    def self.folder(path, what)
      above = File.dirname(path)
      unless File.directory?(above)
        require 'fileutils'
        FileUtils.mkdir_p(above)
      end
      begin
        Dir.mkdir(path, 0700)
      rescue Errno::EEXIST
        found = File.lstat(path)
        refuse(path, what, 'is no folder') unless found.directory?
        refuse(path, what, 'belongs to another user') unless found.uid == Process.euid
        refuse(path, what, "is open to others (mode #{mode(found)}); make it 0700") unless found.mode & 077 == 0
      end
      path
    rescue SystemCallError => error
      raise SettingsError, "#{what} #{path} can't be made: #{reason(error)}"
    end

    # Says what the system refused, without the path that Ruby adds to it.
    def self.reason(error)
      error.class.name.split('::').last
    end

    def self.check(path, what, found, largest)
      refuse(path, what, 'is no regular file') unless found.file?
      refuse(path, what, 'belongs to another user') unless ours?(found)
      refuse(path, what, "is open to others (mode #{mode(found)}); make it 0600") unless found.mode & 077 == 0
      refuse(path, what, "is larger than #{largest} bytes") if found.size > largest
    end

    def self.ours?(found)
      [0, Process.euid].include?(found.uid)
    end

    def self.mode(found)
      format('%04o', found.mode & 07777)
    end

    def self.refuse(path, what, why)
      raise SettingsError, "#{what} #{path} #{why}"
    end

    private_class_method :check, :ours?, :mode, :refuse
  end
end
