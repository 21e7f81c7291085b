# The few calls of ConfigDB's API that a lookup takes. By ids, which no server redirects.
require 'digest'

module ConfigdbHiera
  class Api
    WHAT = 'ConfigDB'
    PRODUCT = %r{\Aconfigdb-sync/}
    # The digest of a document without keys (docs/configdb-api.md, ETags).
    EMPTY = Digest::SHA256.hexdigest('')

    # What there is: `etag` for the next question, `value`; nil is what a 304 says.
    Listed = Struct.new(:etag, :value, :product)

    # `keystone`: a Keystone, nil for other ways to log in.
    def initialize(settings, http, keystone)
      @settings, @http, @keystone = settings, http, keystone
    end

    # Returns Listed of all components, or nil if they are still as `etag` says.
    def components(etag)
      listed('/components', etag) { |body| Json.list(body, WHAT) }
    end

    # Returns Listed of the effective documents' digests at a place, by definition id; the server is our own.
    def digests(levels, etag)
      listed("#{environment}/#{levels}etags", etag) do |body|
        found = {}
        Json.object(body, WHAT).each { |id, item| found[id] = digest_of(item) }
        found
      end
    end

    # Returns the ids of the environment's components.
    def component_ids
      found = Json.object(ask(environment, {}).body, WHAT)['components']
      raise AwayError, "#{WHAT} answers an environment without components" unless found.is_a?(Array)
      found
    end

    # Returns Listed of a document's effective data, or nil if it is still as `etag` says.
    def document(levels, id, etag)
      listed("#{environment}/#{levels}resources/#{id}/values?effective", etag) { |body| Json.object(body, WHAT) }
    end

    private

    def environment
      "/environments/#{@settings.environment}"
    end

    def digest_of(item)
      found = item.is_a?(Hash) ? item['effective'] : nil
      raise AwayError, "#{WHAT} answers digests that are none" unless found.is_a?(String)
      found
    end

    def listed(path, etag)
      answer = ask(path, etag ? { 'If-None-Match' => etag } : {})
      return nil if answer.status == 304 && etag
      raise AwayError, "#{WHAT} answers #{answer.status}" unless answer.status == 200
      Listed.new(answer.headers['etag'], yield(answer.body), answer.headers['server-product'].to_s =~ PRODUCT ? true : false)
    end

    def ask(path, headers)
      answer = send_to(path, headers)
      answer = send_to(path, headers) if answer.status == 401 && @keystone && @keystone.renew
      case answer.status
      when 200, 304 then answer
      when 401, 403 then raise AwayError, "#{WHAT} refuses the login (#{answer.status})"
      when 404 then raise AwayError, "#{WHAT} has no #{path[0, 200]}"
      when 300..399 then raise AwayError, "#{WHAT} redirects (#{answer.status}), which isn't followed"
      else raise AwayError, "#{WHAT} answers #{answer.status}"
      end
    end

    def send_to(path, headers)
      headers = headers.merge('X-Auth-Token' => token) unless @settings.auth == 'none'
      @http.request(:Get, base + path, headers, WHAT)
    end

    def token
      return @keystone.token.id if @keystone
      found = PrivateFiles.read(@settings.token_file, 'the token file').strip
      raise SettingsError, "the token file #{@settings.token_file} holds no token" unless found =~ /\A[!-~]+\z/
      found
    end

    def base
      found = @settings.url || (@keystone && @keystone.endpoint) || @settings.fallback_url
      raise AwayError, "Keystone's catalog has no endpoint of type config; set url" if found.nil?
      raise AwayError, "the address of #{WHAT} in Keystone's catalog can't be used" unless found =~ Settings::ADDRESS
      found.sub(%r{/+\z}, '')
    end
  end
end
