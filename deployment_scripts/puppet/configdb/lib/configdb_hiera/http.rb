# One HTTP request within limits: time, size, no redirect, no proxy, verified TLS.
require 'net/http'
require 'openssl'
require 'timeout'
require 'uri'

module ConfigdbHiera
  class Http
    Answer = Struct.new(:status, :headers, :body)

    # Not StandardError's: nothing between us and the socket may take it for its own.
    class OutOfTime < RuntimeError; end

    FAULTS = [
      SystemCallError, SocketError, IOError, Timeout::Error, OutOfTime, OpenSSL::SSL::SSLError, Net::ProtocolError,
      Net::HTTPBadResponse, Net::HTTPHeaderSyntaxError, URI::Error, ArgumentError
    ].freeze

    def initialize(settings)
      @settings = settings
    end

    # Sends a request and returns the Answer, whatever its status; headers by lower-case name. `what` names the server
    # in errors. Raises AwayError.
    def request(kind, url, headers, what, body = nil)
      parts = URI.parse(url)
      made = Net::HTTP.const_get(kind).new(parts.request_uri, headers_for(headers))
      made.body = body if body
      Timeout.timeout(@settings.time_limit, OutOfTime) { exchange(parts, made, what) }
    rescue AwayError
      raise
    rescue OutOfTime, Timeout::Error
      raise AwayError, "#{what} didn't answer in time"
    rescue OpenSSL::SSL::SSLError => error
      raise AwayError, "#{what} can't be trusted or speaks no TLS: #{printable(error.message)}"
    rescue *FAULTS => error
      where = parts ? " (#{parts.host}:#{parts.port})" : ''
      raise AwayError, "#{what} can't be asked: #{error.class.name.split('::').last}#{where}"
    end

    private

    # An answer in another coding could be a bomb.
    def headers_for(headers)
      { 'Accept' => 'application/json', 'Accept-Encoding' => 'identity', 'User-Agent' => 'configdb-sync-hiera' }.merge(headers)
    end

    def exchange(parts, made, what)
      connection(parts).start do |http|
        answer = nil
        http.request(made) do |response|
          answer = Answer.new(response.code.to_i, lowered(response), read(response, what))
        end
        answer
      end
    end

    def connection(parts)
      # The third nil: no proxy, whatever the environment says.
      http = Net::HTTP.new(parts.hostname, parts.port, nil)
      http.open_timeout = http.read_timeout = @settings.timeout
      http.max_retries = 0 if http.respond_to?(:max_retries=)
      return http unless parts.scheme == 'https'
      http.use_ssl = true
      http.ca_file = @settings.ca_file if @settings.ca_file
      http.verify_mode = @settings.insecure ? OpenSSL::SSL::VERIFY_NONE : OpenSSL::SSL::VERIFY_PEER
      http
    end

    def lowered(response)
      found = {}
      response.each_header { |name, value| found[name.downcase] = value }
      found
    end

    def read(response, what)
      parts, size = [], 0
      response.read_body do |part|
        size += part.size
        raise AwayError, "#{what} answers more than #{@settings.max_bytes} bytes" if size > @settings.max_bytes
        parts << part
      end
      # Net::HTTP takes what came before the end for all.
      raise AwayError, "the answer of #{what} was cut" if response.content_length && size < response.content_length
      parts.join
    end

    def printable(text)
      text.to_s.gsub(/[^ -~]/, '?')[0, 200]
    end
  end
end
