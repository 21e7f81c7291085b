module MCollective
  module Agent
    # Answers as the agent of this name on a Fuel node does.
    class Execute_shell_command < RPC::Agent
      action "execute" do
        stdout, stderr = "", ""
        shell = Shell.new(request[:cmd],
                          "stdout" => stdout,
                          "stderr" => stderr,
                          "cwd"    => request[:cwd] || "/tmp")
        shell.runcommand
        reply[:stdout] = told(stdout)
        reply[:stderr] = told(stderr)
        reply[:exit_code] = ended(shell.status)
      end

      private

      # Plain ASCII travels as text, anything else as bytes.
      def told(output)
        output.dup.force_encoding(output.b.ascii_only? ? Encoding::UTF_8 : Encoding::BINARY)
      end

      def ended(status)
        return -1 unless status
        return 128 + status.termsig if status.signaled?
        status.exitstatus || -1
      end
    end
  end
end
