import type { Answer } from 'dns-packet'

/** A service that somebody on the local network announces (RFC 6763). Nothing of it is proven. */
export interface Announcement {
  /** `penstock._penstock._tcp.local`. */
  readonly instance: string
  readonly port: number
  /** IPv4 addresses of the computer, as it tells them. */
  readonly addresses: readonly string[]
  /** The pairs of its text record. */
  readonly text: ReadonlyMap<string, string>
}

/** How many services of one network are kept: a hostile one could announce any number. */
export const announcementsMax = 64
const addressesMax = 8
const pairsMax = 16
const pairCharactersMax = 255

function pairsOf(data: unknown): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>()
  for (const chunk of [data].flat().slice(0, pairsMax)) {
    const text = Buffer.isBuffer(chunk) ? chunk.toString('utf8') : String(chunk)
    const at = text.indexOf('=')
    if (at > 0 && text.length <= pairCharactersMax) pairs.set(text.slice(0, at).toLowerCase(), text.slice(at + 1))
  }
  return pairs
}

interface Question {
  readonly name: string
  readonly type: 'SRV' | 'TXT' | 'A'
}

interface Records {
  port: number | null
  target: string | null
  text: ReadonlyMap<string, string>
}

/** Puts together what arrives in any order and in several packets. */
export class ServiceRecords {
  private readonly services = new Map<string, Records>()
  private readonly addresses = new Map<string, Set<string>>()

  /** `type`: `_penstock._tcp.local`. */
  constructor(private readonly type: string) {}

  take(answers: readonly Answer[]): void {
    for (const answer of answers) this.takeOne(answer)
  }

  private takeOne(answer: Answer): void {
    if (answer.type === 'PTR' && sameName(answer.name, this.type)) this.takeInstance(String(answer.data), answer.ttl)
    if (answer.type === 'SRV') {
      const service = this.service(answer.name)
      if (service === null) return
      service.port = answer.data.port
      service.target = answer.data.target.toLowerCase()
    }
    if (answer.type === 'TXT') {
      const service = this.service(answer.name)
      if (service !== null) service.text = pairsOf(answer.data)
    }
    if (answer.type === 'A') this.takeAddress(answer.name.toLowerCase(), answer.data)
  }

  /** A time to live of 0 is a goodbye. */
  private takeInstance(instance: string, ttl: number | undefined): void {
    if (ttl === 0) this.services.delete(instance.toLowerCase())
    else this.service(instance)
  }

  private service(instance: string): Records | null {
    const name = instance.toLowerCase()
    if (!name.endsWith(`.${this.type}`)) return null
    const known = this.services.get(name)
    if (known !== undefined) return known
    if (this.services.size >= announcementsMax) return null
    const made: Records = { port: null, target: null, text: new Map() }
    this.services.set(name, made)
    return made
  }

  private takeAddress(name: string, address: string): void {
    const known = this.addresses.get(name)
    if (known !== undefined) {
      if (known.size < addressesMax) known.add(address)
    } else if (this.addresses.size < announcementsMax) this.addresses.set(name, new Set([address]))
  }

  /** What is still to be asked: the names whose records have not come with the others. */
  questions(): readonly Question[] {
    return [...this.services].flatMap(([name, { target }]): readonly Question[] => {
      if (target === null)
        return [
          { name, type: 'SRV' },
          { name, type: 'TXT' },
        ]
      return this.addresses.has(target) ? [] : [{ name: target, type: 'A' }]
    })
  }

  /** Those that can be reached. */
  found(): readonly Announcement[] {
    return [...this.services].flatMap(([instance, { port, target, text }]) => {
      const addresses = [...(this.addresses.get(target ?? '') ?? [])]
      return port === null || port === 0 || addresses.length === 0 ? [] : [{ instance, port, addresses, text }]
    })
  }
}

const sameName = (a: string, b: string) => a.toLowerCase() === b
