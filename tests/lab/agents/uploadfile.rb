require "fileutils"

module MCollective
  module Agent
    # Answers as the agent of this name on a Fuel node does, its faults included: it writes in place, follows links,
    # and sets owner and mode only afterwards.
    class Uploadfile < RPC::Agent
      action "upload" do
        path = request[:path]
        folder = File.dirname(path)
        if File.exist?(path) && !request[:overwrite]
          reply.fail!("File #{path} already exists and may not be overwritten")
        end
        unless File.directory?(folder)
          reply.fail!("Folder #{folder} does not exist") unless request[:parents]
          FileUtils.mkdir_p(folder)
        end
        File.open(path, "wb") { |file| file.write(request[:content]) }
        FileUtils.chown(request[:user_owner], request[:group_owner], path)
        FileUtils.chmod(request[:permissions].to_i(8), path)
        FileUtils.chmod(request[:dir_permissions].to_i(8), folder) if request[:dir_permissions]
        reply[:msg] = "File was uploaded!"
      end
    end
  end
end
