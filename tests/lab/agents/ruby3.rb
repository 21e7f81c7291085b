# What MCollective, which is older than Ruby 3, still expects of Ruby.
class Process::Status
  def thread
    Thread.new {}
  end unless method_defined?(:thread)
end
[File, Dir].each do |kind|
  kind.singleton_class.send(:alias_method, :exists?, :exist?) unless kind.respond_to?(:exists?)
end
