# Keystone's tokens, v3 and, where there is no v3, v2.0: got by password, kept in a private file until they expire.
require 'digest'
require 'time'

module ConfigdbHiera
  class Keystone
    MARGIN = 30
    # Where this clock and Keystone's differ, a new token is used all the same: ConfigDB says what it thinks of it.
    LEAST = 60
    TYPE = 'config'
    WHAT = 'Keystone'

    # `endpoints`: ConfigDB's addresses in the catalog.
    Token = Struct.new(:id, :expires, :endpoints)

    # `cache`: a Cache. `clock`: returns the time in seconds.
    def initialize(settings, http, cache, clock)
      @settings, @http, @cache, @clock = settings, http, cache, clock
      @login = settings.login
    end

    # Returns a Token that is good for a while. Raises AwayError.
    def token
      @token = nil if @token && expired?(@token)
      @token ||= kept || fetched
    end

    # Returns ConfigDB's address in the catalog, nil if there is none. Raises AwayError, also for several.
    def endpoint
      found = token.endpoints
      return found.first if found.size < 2
      listed = found.map { |url| url =~ Settings::ADDRESS ? url : '(one that can\'t be used)' }
      raise AwayError, "#{WHAT}'s catalog has several endpoints of type #{TYPE}: #{listed.join(', ')}; set region or url"
    end

    # Gets a new token though the old one hasn't expired; true if it is another one.
    def renew
      old = @token && @token.id
      @token = fetched
      @token.id != old
    end

    private

    def expired?(token)
      @clock.call > token.expires - MARGIN
    end

    # What it was got for; never the password.
    def name
      seen = @login.reject { |key, _| key == 'password' }.sort.inspect
      "token-#{Digest::SHA256.hexdigest(seen)}"
    end

    def kept
      found = @cache.read(name)
      return nil unless found && found['id'].is_a?(String) && found['expires'].is_a?(Numeric) && found['endpoints'].is_a?(Array)
      token = Token.new(found['id'], found['expires'], found['endpoints'])
      expired?(token) ? nil : token
    end

    def fetched
      token = version3 || version2
      token.expires = [token.expires, @clock.call + LEAST].max
      @cache.write(name, 'id' => token.id, 'expires' => token.expires, 'endpoints' => token.endpoints)
      token
    end

    def base
      @login['auth_url'].sub(%r{/+\z}, '').sub(%r{/v(3|2\.0)\z}, '')
    end

    # Returns nil where this Keystone has no v3.
    def version3
      domain = lambda { |name| { 'name' => @login[name] || 'Default' } }
      user = { 'name' => @login['username'], 'password' => @login['password'].to_s, 'domain' => domain.call('user_domain') }
      auth = { 'identity' => { 'methods' => ['password'], 'password' => { 'user' => user } } }
      if @login['project']
        auth['scope'] = { 'project' => { 'name' => @login['project'], 'domain' => domain.call('project_domain') } }
      end
      answer = post('/v3/auth/tokens', 'auth' => auth)
      return nil if answer.status == 404
      made(answer, 201) do |body|
        token = body.fetch('token')
        catalog = token['catalog'].is_a?(Array) ? token['catalog'] : []
        Token.new(answer.headers.fetch('x-subject-token'), seconds(token['expires_at']), endpoint3(catalog))
      end
    end

    def version2
      credentials = { 'username' => @login['username'], 'password' => @login['password'].to_s }
      auth = { 'passwordCredentials' => credentials }
      auth['tenantName'] = @login['project'] if @login['project']
      made(post('/v2.0/tokens', 'auth' => auth), 200) do |body|
        access = body.fetch('access')
        catalog = access['serviceCatalog'].is_a?(Array) ? access['serviceCatalog'] : []
        Token.new(access.fetch('token').fetch('id'), seconds(access.fetch('token')['expires']), endpoint2(catalog))
      end
    end

    def post(path, body)
      @http.request(:Post, base + path, { 'Content-Type' => 'application/json' }, WHAT, JSON.generate(body))
    end

    def made(answer, good)
      raise AwayError, "#{WHAT} refused the login" if [401, 403].include?(answer.status)
      raise AwayError, "#{WHAT} answers #{answer.status} to the login" unless answer.status == good
      token = yield Json.object(answer.body, WHAT)
      raise AwayError, "#{WHAT} gave no token" unless token.id.is_a?(String) && token.id =~ /\A[!-~]+\z/
      token
    rescue KeyError, TypeError, NoMethodError
      raise AwayError, "#{WHAT} answers the login with something else than a token"
    end

    def seconds(text)
      Time.parse(text.to_s =~ /(Z|[-+]\d\d:?\d\d)\z/ ? text : "#{text}Z").to_i
    rescue ArgumentError
      raise AwayError, "#{WHAT} gave a token without an end"
    end

    def endpoint3(catalog)
      chosen(catalog, 'endpoints') do |found|
        found['interface'] == interface ? found['url'] : nil
      end
    end

    def endpoint2(catalog)
      chosen(catalog, 'endpoints') { |found| found["#{interface}URL"] }
    end

    # Returns the addresses that the catalog has, each once: several are for whoever needs one to refuse.
    def chosen(catalog, list)
      services = catalog.select { |service| service.is_a?(Hash) && service['type'] == TYPE && service[list].is_a?(Array) }
      region = @login['region']
      found = services.map { |service| service[list] }.flatten.map do |endpoint|
        next unless endpoint.is_a?(Hash) && (region.nil? || [endpoint['region'], endpoint['region_id']].include?(region))
        url = yield endpoint
        url.sub(%r{/+\z}, '') if url.is_a?(String)
      end
      found.compact.uniq
    end

    def interface
      @login['interface'] || 'public'
    end
  end
end
