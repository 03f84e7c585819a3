import { type DiscoveredRuntime, discover } from '../runtimes/discovery.ts'
import { createDirectTransport } from '../transport/http1/direct.ts'
import { probeFetch } from './runtime-probe.ts'

/** Time limit for all ports together. Loopback answers at once or not at all. */
const discoveryTimeoutMs = 1_000

export const loopbackUrl = (port: number) => `http://127.0.0.1:${port}`

/** The model servers on this computer's usual ports, but for `except`. Never rejects. */
export function discoverHere(except: readonly number[]): Promise<readonly DiscoveredRuntime[]> {
  return discover({
    timeoutMs: discoveryTimeoutMs,
    except,
    fetchFor: (port, signal) => {
      const options = { url: loopbackUrl(port), apiKey: null, connectTimeoutMs: discoveryTimeoutMs }
      const transport = createDirectTransport(options)
      signal.addEventListener('abort', () => transport.close(), { once: true })
      return probeFetch(transport, signal)
    },
  })
}
