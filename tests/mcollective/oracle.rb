# Ruby's own Marshal, asked over lines: "load HEX" answers what Ruby reads and how it would write that;
# "make SEED" answers a dump of a made-up value, with objects that occur more than once, and what it is.

def told(value)
  case value
  when nil then "n"
  when true then "t"
  when false then "f"
  when Integer then "i#{value}"
  when String then "s#{value.encoding == Encoding::BINARY ? "" : value.encoding.name}:#{value.unpack1("H*")}"
  when Symbol then "y#{value.to_s.b.unpack1("H*")}"
  when Array then "[#{value.map { |item| told(item) }.join(",")}]"
  when Hash then "{#{value.map { |key, item| "#{told(key)}>#{told(item)}" }.join(",")}}"
  else "?#{value.class}"
  end
end

NAMES = %w[cmd stdout exit_code body hash é 日本].map(&:to_sym)

def text(random)
  case random.rand(4)
  when 0 then random.bytes(random.rand(12))
  when 1 then "plain #{random.rand(1000)}"
  when 2 then "ünï #{random.rand(1000)}".encode(%w[UTF-8 ISO-8859-1 UTF-16LE].sample(random: random))
  else "ascii".dup.force_encoding("US-ASCII")
  end
end

def number(random)
  (random.rand(2) * 2 - 1) * random.rand(2**random.rand(1..90))
end

def made(random, depth, known)
  value =
    case random.rand(depth.zero? ? 5 : 9)
    when 0 then [nil, true, false].sample(random: random)
    when 1 then number(random)
    when 2 then text(random)
    when 3 then NAMES.sample(random: random)
    when 4 then known.empty? ? nil : known.sample(random: random)
    when 5, 6 then Array.new(random.rand(5)) { made(random, depth - 1, known) }
    else
      Array.new(random.rand(5)) { |at| [[NAMES[at], "key #{at}", at].sample(random: random), made(random, depth - 1, known)] }.to_h
    end
  known << value
  value
end

$stdout.sync = true
$stdin.each_line do |line|
  order, rest = line.split
  begin
    if order == "load"
      value = Marshal.load([rest.to_s].pack("H*"))
      puts "ok #{told(value)} #{Marshal.dump(value).unpack1("H*")}"
    else
      value = made(Random.new(rest.to_i), 4, [])
      puts "ok #{told(value)} #{Marshal.dump(value).unpack1("H*")}"
    end
  rescue StandardError, SystemStackError => error
    puts "error #{error.class}"
  end
end
