# Which data source of ConfigDB a level of Hiera's hierarchy is: its path below the data folder, without `.yaml`.
#
# They are the product's own names (docs/decisions/which-files-are-data-sources.md): a name is its path, except where
# the path holds the node's own name. A level reaches us with its placeholders filled in, so a `*` stands for them.
module ConfigdbHiera
  class Names
    PATTERNS = {
      'override/node/*' => 'override/node',
      'override/configuration/*' => 'override/configuration/node',
      'override/*' => 'override/hostname'
    }.freeze
    # More literal than the patterns that would take them too.
    LITERAL = %w[
      override/plugins override/common override/configuration override/node override/configuration/role
      override/configuration/cluster override/configuration/default_route override/configuration/remove_ovs_usage
    ].freeze

    # `more`: names of further data sources with the paths (`*` or placeholders in them) of their files.
    def initialize(more = {})
      found = PATTERNS.dup
      @literal = LITERAL.dup
      more.each do |name, path|
        pattern = path.gsub(/%\{[^}]*\}/, '*')
        found[pattern] = name
        @literal << pattern if pattern == name
      end
      # The longer text is the more literal one.
      @patterns = found.sort_by { |pattern, _| -pattern.size }.map { |pattern, name| [self.class.regexp(pattern), name] }
    end

    # Returns the name for a path.
    def of(path)
      return path if @literal.include?(path)
      found = @patterns.find { |regexp, _| regexp =~ path }
      found ? found[1] : path
    end

    # Returns what a pattern matches: `*` is any text without a slash.
    def self.regexp(pattern)
      Regexp.new('\A' + pattern.split('*', -1).map { |text| Regexp.escape(text) }.join('[^/]+') + '\z')
    end
  end
end
