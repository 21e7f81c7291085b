# From JSON back to what Ruby reads in the node's file (docs/decisions/json-form.md).
#
# JSON has no Symbols, integer keys, dates and times: they travel as text, and *marks* say where they stood. A text at
# a marked place gets its type if that type's text is the very same text. New keys and items take the type that all
# their siblings share.
require 'date'

module ConfigdbHiera
  module Form
    INTEGER = /\A(?:0|-?[1-9][0-9]*)\z/
    DATE = /\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z/
    TIME = /\A([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]*[1-9])?(?:Z|[-+]([0-9]{2}):([0-9]{2}))?\z/
    DAYS = [nil, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].freeze

    # Returns the marks of a file's top-level keys: text of the key => {'key' => kind, 'value' => marks}, only of keys
    # that need them.
    def self.marks(data)
      found = {}
      data.each do |key, value|
        kind = kind_of_key(key)
        below = marks_of(value)
        next unless kind || below
        mark = found[text_of_key(key)] = {}
        mark['key'] = kind if kind
        mark['value'] = below if below
      end
      found
    end

    # Returns a document of ConfigDB with the types that a file's marks give.
    def self.document(json, marks)
      return json if marks.empty?
      result = {}
      json.each do |key, value|
        mark = marks[key] || {}
        result[typed_key(key, mark['key'])] = typed(value, mark['value'])
      end
      result
    end

    def self.marks_of(value)
      case value
      when Symbol then 'symbol'
      when Time then 'time'
      when Date then 'date'
      when Hash then marks_of_mapping(value)
      when Array then marks_of_list(value)
      end
    end

    def self.typed(value, marks)
      case marks
      when nil then value
      when String then value.is_a?(String) ? special(value, marks) : value
      when Hash
        if value.is_a?(Hash)
          typed_mapping(value, marks)
        elsif value.is_a?(Array)
          typed_list(value, marks)
        else
          value
        end
      else value
      end
    end

    def self.marks_of_mapping(value)
      kinds, below = {}, {}
      value.each do |key, item|
        text = text_of_key(key)
        kind = kind_of_key(key)
        kinds[text] = kind if kind
        marks = marks_of(item)
        below[text] = marks if marks
      end
      found = {}
      alike = kinds.size == value.size && kinds.values.uniq.size == 1
      found['keys'] = alike ? kinds.values.first : kinds unless kinds.empty?
      found['values'] = below unless below.empty?
      found.empty? ? nil : found
    end

    def self.marks_of_list(value)
      marks = value.map { |item| marks_of(item) }
      return nil if marks.all?(&:nil?)
      return { 'each' => marks.first } if marks.all? { |mark| mark == marks.first }
      items = {}
      marks.each_with_index { |mark, index| items[index.to_s] = mark if mark }
      { 'items' => items }
    end

    def self.typed_mapping(value, marks)
      keys = marks['keys']
      below = marks['values'].is_a?(Hash) ? marks['values'] : {}
      result = {}
      value.each do |key, item|
        result[typed_key(key, keys.is_a?(Hash) ? keys[key] : keys)] = typed(item, below[key])
      end
      result
    end

    def self.typed_list(value, marks)
      return value.map { |item| typed(item, marks['each']) } if marks.key?('each')
      items = marks['items'].is_a?(Hash) ? marks['items'] : {}
      index = -1
      value.map { |item| typed(item, items[(index += 1).to_s]) }
    end

    def self.typed_key(key, kind)
      kind.is_a?(String) ? special(key, kind) : key
    end

    def self.special(text, kind)
      case kind
      when 'symbol' then text.start_with?(':') ? text[1..-1].to_sym : text
      when 'integer' then text =~ INTEGER ? text.to_i : text
      when 'date' then text =~ DATE ? read_as(Date, text) { |found| found.strftime('%Y-%m-%d') == text } : text
      when 'time' then time?(text) ? read_as(Time, text) { true } : text
      else text
      end
    end

    # As this Ruby's own YAML reads it, so that it is just what the file gives.
    def self.read_as(type, text)
      found = YamlFiles.parse(text)
      found.is_a?(type) && yield(found) ? found : text
    rescue YamlFiles::UnreadableError
      text
    end

    # Whether a text is that of a time, and none that would run over into another day or minute.
    def self.time?(text)
      found = TIME.match(text) or return false
      year, month, day, hour, minute, second = found[1..6].map(&:to_i)
      return false unless year >= 1 && month.between?(1, 12) && hour < 24 && minute < 60 && second < 60
      leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
      return false unless day.between?(1, DAYS[month] + (leap ? 1 : 0))
      found[7].nil? || (found[7].to_i < 24 && found[8].to_i < 60)
    end

    def self.kind_of_key(key)
      case key
      when Symbol then 'symbol'
      when Integer then 'integer'
      when Time then 'time'
      when Date then 'date'
      end
    end

    def self.text_of_key(key)
      case key
      when Symbol then ":#{key}"
      when Date then key.strftime('%Y-%m-%d')
      else key.to_s
      end
    end

    private_class_method :marks_of_mapping, :marks_of_list, :typed_mapping, :typed_list, :typed_key, :special
    private_class_method :read_as, :time?, :kind_of_key, :text_of_key
  end
end
