# One place in ConfigDB (a node): which data sources there are, and their effective data, asked for as seldom as can be.
#
# Our own server tells the digests of all documents in one answer, so that only changed ones are asked for; tuning-box
# doesn't, and each document is asked for again when its time to live is over.
require 'digest'

module ConfigdbHiera
  class Place
    # The product's own records: a data source, but of no file.
    RECORDS = 'records'

    # `api`: gives an Api. `levels`: the place in ConfigDB's URLs (`nodes/3/`). `warn`: is told that last known data
    # stands for an answer.
    def initialize(settings, api, cache, levels, clock, warn)
      @settings, @api, @cache, @levels, @clock, @warn = settings, api, cache, levels, clock, warn
      @prefix = Digest::SHA256.hexdigest([settings.origin, levels].inspect)
      @documents = {}
    end

    # Returns the effective data of a data source, nil if ConfigDB has none of that name here or it has no keys.
    # `written`: when the node's own file last changed, which makes what was asked before that old. Raises Error.
    def document(name, written = nil)
      return nil if name == RECORDS
      refresh if stale?(written)
      id = @known['names'][name]
      return nil if id.nil?
      digest = @known['digests'] && @known['digests'][id.to_s]
      return nil if digest == Api::EMPTY
      found = digest ? by_digest(name, id, digest) : by_time(name, id)
      found.empty? ? nil : found
    end

    # Asks for every document here, so that all of them are known when ConfigDB is away; returns how many have keys.
    def fetch_all
      @known = asked_names.merge('checked' => now)
      @known['names'].keys.count { |name| document(name) }.tap { @cache.write(@prefix, @known) }
    end

    private

    def now
      @clock.call
    end

    def fresh?(time, limit)
      time.is_a?(Numeric) && (now - time).between?(0, limit)
    end

    def stale?(written)
      @known ||= kept_names
      return true if @known.nil?
      return false if away?
      changed = written && written <= now && written >= @known['checked']
      changed || !fresh?(@known['checked'], @settings.ttl)
    end

    def kept_names
      found = @cache.read(@prefix)
      return nil unless found && found['names'].is_a?(Hash)
      found if (found['digests'].nil? || found['digests'].is_a?(Hash)) && found['checked'].is_a?(Numeric)
    end

    # Whether ConfigDB was away a moment ago: it isn't asked again right now.
    def away?
      @settings.when_away == 'last-known' && fresh?(@known['away'], @settings.retry)
    end

    def refresh
      @known ||= kept_names
      started = now
      @known = asked_names.merge('checked' => started)
      @cache.write(@prefix, @known)
    rescue AwayError => error
      raise if @known.nil?
      stand_in(error)
    end

    def asked_names
      old = @known || {}
      components = @api.call.components(old['components_etag'])
      # tuning-box has no ETags, so that nothing is as it was.
      return with_ids(components.value) if components && !components.product
      with_digests(components, old)
    end

    def with_digests(components, old)
      found = @api.call.digests(@levels, old['digests'] && old['digests_etag'])
      digests = found ? found.value : old['digests']
      # Other components may be the environment's now: the names that are kept are those of the ones before.
      components = @api.call.components(nil) unless components || (digests.keys - old['names'].values.map(&:to_s)).empty?
      pairs = components ? pairs_of(components.value) { |_, id| digests.key?(id.to_s) } : old['names'].to_a
      {
        'names' => named(pairs.select { |_, id| digests.key?(id.to_s) }),
        'components_etag' => components ? components.etag : old['components_etag'],
        'digests' => digests, 'digests_etag' => found ? found.etag : old['digests_etag']
      }
    end

    def with_ids(components)
      wanted = @api.call.component_ids
      { 'names' => named(pairs_of(components) { |component, _| wanted.include?(component) }), 'digests' => nil }
    end

    # Returns names and ids of the definitions for which the block, given a component's id and the definition's, is true.
    def pairs_of(components)
      components.flat_map do |component|
        pairs = component.fetch('resource_definitions').map { |one| [one.fetch('name'), Integer(one.fetch('id'))] }
        pairs.select { |_, id| yield component['id'], id }
      end
    rescue KeyError, TypeError, NoMethodError, ArgumentError
      raise AwayError, "#{Api::WHAT} answers components that are none"
    end

    def named(pairs)
      found = {}
      pairs.each do |name, id|
        raise AwayError, "#{Api::WHAT} has two data sources #{name.inspect} in this environment" if found.key?(name)
        found[name] = id
      end
      found
    end

    def by_digest(name, id, digest)
      etag = "\"#{digest}\""
      kept = held(name)
      return kept['data'] if kept && (kept['etag'] == etag || away?)
      asked(name, id, kept)
    end

    def by_time(name, id)
      kept = held(name)
      # Asked for since the names were: those are asked for anew when the time to live is over.
      return kept['data'] if kept && (away? || kept['checked'] >= @known['checked'])
      asked(name, id, kept)
    end

    def held(name)
      @documents[name] ||= begin
        found = @cache.read(file_of(name))
        found if found && found['data'].is_a?(Hash) && found['checked'].is_a?(Numeric)
      end
    end

    def asked(name, id, kept)
      raise AwayError, "#{Api::WHAT} is away, and #{name} was never asked for" if away?
      started = now
      found = @api.call.document(@levels, id, kept && kept['etag'])
      keep(name, found ? { 'etag' => found.etag, 'data' => found.value } : kept, started)
    rescue AwayError => error
      raise if kept.nil?
      stand_in(error)
      kept['data']
    end

    def keep(name, document, started)
      @documents[name] = document.merge('name' => name, 'checked' => started)
      @cache.write(file_of(name), @documents[name])
      @documents[name]['data']
    end

    def file_of(name)
      "#{@prefix}-#{Digest::SHA256.hexdigest(name)}"
    end

    # What was last known answers from now on, for a while; or the error is raised, if it is so set.
    def stand_in(error)
      raise error unless @settings.when_away == 'last-known'
      @warn.call("#{error.message}; what was last known of #{@levels.chomp('/')} is used")
      @known = @known.merge('away' => now)
      @cache.write(@prefix, @known)
    end
  end
end
