# JSON as it comes from a server: anything.
require 'json'

module ConfigdbHiera
  module Json
    NESTING = 250

    # Returns the object that a text holds. Raises AwayError that names the server.
    def self.object(text, what)
      kind(text, what, Hash)
    end

    def self.list(text, what)
      kind(text, what, Array)
    end

    def self.kind(text, what, type)
      text = text.dup.force_encoding('UTF-8')
      raise AwayError, "#{what} answers bytes that are no UTF-8" unless text.valid_encoding?
      # A scalar at the top is refused by old parsers, taken by new ones; neither is what is asked for.
      found = JSON.parse(text, :max_nesting => NESTING, :create_additions => false)
      return found if found.is_a?(type)
      raise AwayError, "#{what} answers JSON that is no #{type == Hash ? 'mapping' : 'list'}"
    rescue JSON::ParserError
      raise AwayError, "#{what} answers something else than JSON"
    end
    private_class_method :kind
  end
end
