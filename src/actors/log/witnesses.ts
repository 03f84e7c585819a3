import { brand, headers, witnessPath } from '../../brand.ts'
import type { Database } from '../../db/client.ts'
import { identityKeys } from '../../db/queries/log/witnesses.ts'
import { boundedText } from '../../protocol/json/foreign-json.ts'
import { type NoteKey, noteKinds, parseNoteKey } from '../../protocol/log/note.ts'
import { witnessBytesMax } from '../../protocol/log/witnessing.ts'
import { keyIdOf } from '../../protocol/signing/ed25519.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import { type NodeTransport, TransportError } from '../../transport/transport.ts'
import type { AskedWitness, WitnessReply } from './cosigning.ts'

/** The key by which an agent cosigns: its identity, under a name that says nothing else. */
export function agentKey(identityKey: Uint8Array): NoteKey {
  return {
    name: `${brand}-witness/${keyIdOf(identityKey)}`,
    kind: noteKinds.cosignature,
    publicKey: new Uint8Array(identityKey),
  }
}

async function askAgent(
  transport: NodeTransport,
  body: string,
  extra: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<WitnessReply | null> {
  const ended = new CallSignal()
  const end = () => ended.abort()
  signal.addEventListener('abort', end)
  try {
    if (signal.aborted) return null
    const asked = { 'content-type': 'text/plain', ...extra }
    const response = await transport.fetch(witnessPath, { method: 'POST', headers: asked, body, signal: ended })
    const seen = response.headers.get(headers.logSeen)
    return { status: response.status, text: await response.text(witnessBytesMax), seen }
  } catch (error) {
    if (!(error instanceof TransportError)) throw error
    return null
  } finally {
    signal.removeEventListener('abort', end)
  }
}

/** Agents that can be reached from here now. */
export async function agentWitnesses(
  db: Database,
  transportOf: (nodeId: string) => NodeTransport | null,
): Promise<readonly AskedWitness[]> {
  return (await identityKeys(db)).flatMap(({ nodeId, customerId, identityKey }) => {
    const transport = transportOf(nodeId)
    if (transport === null) return []
    const ask: AskedWitness['ask'] = (body, extra, signal) => askAgent(transport, body, extra, signal)
    return [{ key: agentKey(identityKey), owner: customerId, ask }]
  })
}

/** `KEY URL`, as the setting has them; null: it is neither. */
export function foreignWitness(text: string): AskedWitness | null {
  const [keyText, url, rest] = text.trim().split(/ +/)
  const key = parseNoteKey(keyText ?? '')
  if (key === null || url === undefined || rest !== undefined || !URL.canParse(url)) return null
  const address = `${url.replace(/\/+$/, '')}/add-checkpoint`
  const ask: AskedWitness['ask'] = async (body, _extra, signal) => {
    try {
      const response = await fetch(address, { method: 'POST', body, signal, redirect: 'error' })
      const text = response.body === null ? '' : await boundedText(response.body, witnessBytesMax)
      return text === null ? null : { status: response.status, text, seen: null }
    } catch {
      return null
    }
  }
  return { key, ask }
}
