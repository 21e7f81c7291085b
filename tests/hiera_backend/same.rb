# Whether two values are equal type for type, whatever the order of keys.
def same?(one, other)
  return false unless one.class == other.class
  case one
  when Hash
    return false unless one.size == other.size
    one.all? do |key, value|
      other.key?(key) && same?(value, other[key])
    end
  when Array then one.size == other.size && one.zip(other).all? { |a, b| same?(a, b) }
  when Float then [one].pack('G') == [other].pack('G')
  when Time then one.to_r == other.to_r && one.utc_offset == other.utc_offset
  else one == other
  end
end
