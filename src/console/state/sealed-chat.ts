import type * as Sealing from '../../client/sealed/sealed-fetch.ts'
import { assetUrl, gatewayUrl, Refusal } from './api.ts'

/** Fingerprints as nodes print them. */
export const fingerprintPattern = /^SHA256:[A-Za-z0-9_-]{43}$/

/** What encrypts is a script of its own, which the page loads when somebody seals. */
const loadSealing = (): Promise<typeof Sealing> => import(assetUrl(document.documentElement.dataset.seal ?? ''))

/** One chat that this browser seals for the node with this fingerprint. Throws a `Refusal`. */
export async function callSealed(
  fingerprint: string,
  key: string,
  { body, signal }: { readonly body: unknown; readonly signal: AbortSignal },
): Promise<Response> {
  const { SealedError, sealedFetch } = await loadSealing()
  const gateway = gatewayUrl()
  const seal = sealedFetch({ gateway, trust: [fingerprint] })
  try {
    return await seal(`${gateway}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    })
  } catch (error) {
    if (!(error instanceof SealedError)) throw error
    throw new Refusal(error.status ?? 0, error.refusal?.code ?? error.fault, error.message, null)
  }
}
