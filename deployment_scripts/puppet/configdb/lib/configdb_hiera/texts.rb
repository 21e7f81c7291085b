# The rule for a value of any setting: as the task on the master has it (docs/operations.md, What a value may be).
module ConfigdbHiera
  module Texts
    INVISIBLE = /[\p{C}\p{Zl}\p{Zp}]|[\p{Zs}&&[^ ]]/
    CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/
    BLANKS = /\A[[:space:]]+|[[:space:]]+\z/

    # Returns a text without blanks at its ends, nil for none. Yields what is wrong with a value that is none.
    def self.plain(value)
      return nil if value.nil?
      found = readable(value) or return yield('is no text; put it in quotes')
      found = found.gsub(BLANKS, '')
      return yield('has line breaks or invisible characters') if found =~ INVISIBLE
      found.empty? ? nil : found
    end

    # Returns a secret as it is, nil for none. Yields as `plain`.
    def self.secret(value)
      return nil if value.nil? || value == ''
      found = readable(value) or return yield('is no text; put it in quotes')
      return yield('has blanks or line breaks at its ends') if found =~ BLANKS
      found =~ CONTROL ? yield('has line breaks or control characters') : found
    end

    # Returns a port's number. Yields as `plain`.
    def self.port(value, default)
      return default if value.nil?
      found = value.is_a?(Integer) ? value.to_s : plain(value) { |why| return yield(why) }
      return default if found.nil?
      number = found =~ /\A[0-9]{1,5}\z/ ? found.to_i : 0
      number.between?(1, 65_535) ? number : yield('is no port')
    end

    def self.readable(value)
      return nil unless value.is_a?(String)
      found = value.dup.force_encoding('UTF-8')
      found.valid_encoding? ? found : nil
    end

    private_class_method :readable
  end
end
