# Answers on standard output, one line of JSON for each line of JSON on standard input: a list of base64 texts in, a list
# of what Psych reads from each out. Types that JSON lacks are told by one-key objects, so that nothing can be confused.
require "base64"
require "date"
require "json"
require "psych"
require_relative "nodes_calendar"

def told(value)
  case value
  when nil, true, false then value
  when Integer then { "i" => value.to_s }
  when Float then { "f" => [value].pack("G").unpack1("H*") }
  when String then value.class == String && value.valid_encoding? ? { "s" => value } : { "x" => "odd string" }
  when Symbol then { "y" => value.to_s }
  when DateTime then { "x" => "DateTime" }
  when Date then { "d" => value.to_s }
  when Time then { "t" => [value.to_r.to_s, value.utc_offset, value.utc?] }
  when Array then value.class == Array ? { "a" => value.map { |item| told(item) } } : { "x" => value.class.name }
  when Hash
    return { "x" => value.class.name } unless value.class == Hash
    { "h" => value.map { |key, item| [told(key), told(item)] } }
  else { "x" => value.class.name }
  end
end

def answer(text)
  text = Base64.decode64(text).force_encoding("UTF-8").delete_prefix("\uFEFF")
  # Psych reads the first of several documents and never looks at what comes after it.
  return { "error" => "several documents" } if Psych.parse_stream(text).children.size > 1
  value = Psych.respond_to?(:unsafe_load) ? Psych.unsafe_load(text) : Psych.load(text)
  { "ok" => told(value) }
rescue SystemStackError
  { "error" => "too deep" }
rescue StandardError, NotImplementedError, ScriptError => error
  { "error" => error.class.name }
end

$stdout.sync = true
while (line = $stdin.gets)
  answers = JSON.parse(line).map { |text| answer(text) }
  puts JSON.generate(answers, max_nesting: 0, ascii_only: true)
end
