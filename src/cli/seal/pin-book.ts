import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { product } from '../../brand.ts'
import type { Pins } from '../../client/sealed/sealed-fetch.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isObject } from '../../protocol/json/json-object.ts'
import { CliFailure } from '../frame/failure.ts'

/** Nodes that are remembered at most; beyond them a new one is not trusted. */
const pinsMax = 1_000

export interface PinBookOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Fingerprints that were named: then they alone are trusted, and nothing is remembered. */
  readonly named: readonly string[]
  readonly tell: (line: string) => void
}

/** The identities of nodes that this computer has sealed for. The first use of each is told and remembered, a change refused. */
export class PinBook implements Pins {
  readonly file: string
  private pins: Readonly<Record<string, string>>
  /** Each change is told once. */
  private readonly refused = new Set<string>()

  constructor(private readonly options: PinBookOptions) {
    const { env } = options
    this.file = join(env.HOME ?? homedir(), '.config', product, 'sealed-nodes.json')
    this.pins = read(this.file)
  }

  trusts(nodeId: string, fingerprint: string): boolean {
    const { named } = this.options
    if (named.length > 0) return named.includes(fingerprint)
    const known = Object.hasOwn(this.pins, nodeId) ? this.pins[nodeId] : undefined
    if (known === undefined) return this.remember(nodeId, fingerprint)
    if (known === fingerprint) return true
    if (!this.refused.has(nodeId)) {
      this.refused.add(nodeId)
      this.options.tell(
        `${nodeId} has another identity than before, so nothing is sent to it.\n  before: ${known}\n  now:    ${fingerprint}\n  If you have set it up anew, compare with what it prints, and remove its line from ${this.file}.`,
      )
    }
    return false
  }

  private remember(nodeId: string, fingerprint: string): boolean {
    if (Object.keys(this.pins).length >= pinsMax) return false
    this.pins = { ...this.pins, [nodeId]: fingerprint }
    const kept = this.write()
      ? `It is remembered in ${this.file}.`
      : `It is remembered until this door is closed, because ${this.file} cannot be written.`
    this.options.tell(`First use of ${nodeId}. Compare with what the node prints:\n  ${fingerprint}\n  ${kept}`)
    return true
  }

  private write(): boolean {
    const beside = `${this.file}.${process.pid}`
    try {
      mkdirSync(dirname(this.file), { recursive: true, mode: 0o700 })
      writeFileSync(beside, `${JSON.stringify(this.pins, null, 2)}\n`, { mode: 0o600 })
      renameSync(beside, this.file)
      return true
    } catch {
      return false
    }
  }
}

function read(file: string): Readonly<Record<string, string>> {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return {}
    throw new CliFailure(`${file} cannot be read.`)
  }
  const pins = foreignJson(text)
  if (isObject(pins) && Object.values(pins).every((pin) => typeof pin === 'string'))
    return pins as Record<string, string>
  throw new CliFailure(`${file} is damaged: it does not contain a JSON object of fingerprints.`)
}
