# The one change to a node's hiera.yaml: `configdb` among the backends, in the place of `yaml`, which it stands for, or
# just before it. Only text is put in, with what it stands for in a comment, so that taking it out gives every byte back.
require 'yaml'

module ConfigdbHiera
  module Setup
    module HieraYaml
      MARK = '# configdb-sync:'
      ADDED = '# configdb-sync added this'
      KEY = /^:backends[ \t]*:/
      YAML_ITEM = /- *(?:yaml|"yaml"|'yaml')[ \t]*(?:#.*)?\r?$/

      # Returns the text with the backend in it; the same text if it has it. `beside`: `yaml` stays a backend too.
      # Raises SettingsError for a file that it can't be put into so that everything else stays.
      def self.inserted(text, beside = false)
        before = parsed(text)
        backends = [before[:backends] || 'yaml'].flatten.map(&:to_s)
        return text if backends.include?('configdb')
        wanted = with_ours(backends, beside)
        result = changed(text.dup.force_encoding('BINARY'), wanted, beside).force_encoding(text.encoding)
        return result if as_wanted?(result, before, wanted) && removed(result) == text
        by_hand('its :backends: are written in a way that this does not know')
      end

      # Returns the text without it, as it was before.
      def self.removed(text)
        result = text.dup.force_encoding('BINARY')
        result = result.gsub(/^(.*)(?:- configdb|\[[^\]\n]*\]) #{MARK} (.*)$/n) { $1 + $2 }
        result = result.gsub(/^.*#{ADDED}\n/n, '').sub(/\n[^\n]*#{ADDED}\z/n, '')
        result.force_encoding(text.encoding)
      end

      # Whether the backend is among those of a text. What isn't YAML has none.
      def self.listed?(text)
        found = YamlFiles.parse(text)
        found.is_a?(Hash) && [found[:backends]].flatten.map(&:to_s).include?('configdb')
      rescue YamlFiles::UnreadableError
        false
      end

      def self.with_ours(backends, beside)
        return ['configdb'] + backends unless backends.include?('yaml')
        ours = beside ? %w[configdb yaml] : ['configdb']
        backends.flat_map { |name| name == 'yaml' ? ours : [name] }
      end

      # Whether a changed text is read as it was before, but for the backends.
      def self.as_wanted?(text, before, wanted)
        after = YamlFiles.parse(text)
        after.is_a?(Hash) && after.delete(:backends) == wanted && after == before.reject { |key, _| key == :backends }
      rescue YamlFiles::UnreadableError
        false
      end

      def self.changed(text, wanted, beside)
        place = KEY =~ text
        return added(text, wanted) if place.nil?
        start = $~.end(0)
        rest = text[start..-1]
        line = rest[/\A[^\n]*/n]
        unless line.strip.empty? || line.strip.start_with?('#')
          spaces = line[/\A[ \t]*/n]
          return text[0...start] + "#{spaces}[#{wanted.join(', ')}] #{MARK} " + rest[spaces.size..-1]
        end
        text[0...start] + in_block(rest, beside)
      end

      # `rest` follows the key's colon; its items come below.
      def self.in_block(rest, beside)
        block = rest[/\A[^\n]*\n(?:(?:[ \t]*-[^\n]*|[ \t]*#[^\n]*|[ \t]*)(?:\n|\z))*/n] || ''
        item = YAML_ITEM =~ block
        return block[0...item] + "- configdb #{MARK} " + block[item..-1] + rest[block.size..-1] if item && !beside
        line = item ? (block.rindex("\n", item) || -1) + 1 : /^[ \t]*-/n =~ block
        return rest if line.nil?
        block[0...line] + "#{block[line..-1][/\A[ \t]*/n]}- configdb #{ADDED}\n" + block[line..-1] + rest[block.size..-1]
      end

      def self.added(text, wanted)
        line = ":backends: [#{wanted.join(', ')}] #{ADDED}"
        text.empty? || text.end_with?("\n") ? "#{text}#{line}\n" : "#{text}\n#{line}"
      end

      def self.parsed(text)
        found = YamlFiles.parse(text) || {}
        by_hand('it is no mapping') unless found.is_a?(Hash)
        by_hand('it is of version 5; docs/hiera.md shows what to add') if found['version'] || found[:version]
        found
      rescue YamlFiles::UnreadableError => error
        by_hand("it isn't YAML#{error.message}")
      end

      def self.by_hand(why)
        raise SettingsError, "hiera.yaml can't be changed without loss: #{why}"
      end

      private_class_method :with_ours, :as_wanted?, :changed, :in_block, :added, :parsed, :by_hand
    end
  end
end
