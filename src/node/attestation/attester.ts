import { statSync } from 'node:fs'
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js'
import { product } from '../../brand.ts'
import { NoAnswer, within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { failureName, type Log } from '../../log.ts'
import {
  type Attestation,
  attestationBytesMax,
  attestationObject,
  gpuNonceOf,
  reportDataOf,
} from '../../protocol/attestation/evidence.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { decodeBase64Url, encodeBase64Url } from '../../protocol/signing/base64.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import type { SealedKeys } from '../sealed/sealed-keys.ts'
import { gpuEvidence } from './gpu-evidence.ts'
import { tsmReport } from './tsm-report.ts'

/** What the owner of a confidential machine has said about it. */
export interface AttestOptions {
  /** Where configfs-tsm makes reports, usually `/sys/kernel/config/tsm/report`. */
  readonly folder: string
  /** What the maker has signed of this hardware, as JSON; read anew each time, so that a timer may renew it. */
  readonly collateral?: string
  /** A program that prints NVIDIA's evidence for the nonce that is its argument. */
  readonly gpuCommand?: string
  /** How long one request for evidence waits, ms. */
  readonly waitMs?: number
}

/** Requests for evidence that have not ended, at most, and how long each waits for its own, ms. The hardware makes one at a time. */
export const turnsMax = 8
const evidenceMs = 15_000
const busyRetrySeconds = 1
const collateralBytesMax = 160 * 1024

class CollateralError extends Error {
  override readonly name = 'CollateralError'
}

async function readCollateral(file: string): Promise<unknown> {
  const handle = Bun.file(file)
  if (handle.size > collateralBytesMax) throw new CollateralError(`it has more than ${collateralBytesMax} bytes`)
  const value = foreignJson(await handle.text())
  if (value === undefined) throw new CollateralError('it is not JSON')
  return value
}

/** Throws `NodeStartError` for what can be seen to be wrong before anybody asks. */
export function checkAttest({ folder, collateral, gpuCommand }: AttestOptions): void {
  const kind = (path: string) => statSync(path, { throwIfNoEntry: false })
  if (kind(folder)?.isDirectory() !== true) {
    throw new NodeStartError(
      `--attest: ${folder} is not a folder. On a confidential computer with Linux 6.7 or newer it is /sys/kernel/config/tsm/report, once configfs is mounted and tdx-guest or sev-guest is loaded.`,
    )
  }
  if (collateral !== undefined && kind(collateral)?.isFile() !== true) {
    throw new NodeStartError(`--attest-collateral: ${collateral} is not a file.`)
  }
  if (gpuCommand !== undefined && Bun.which(gpuCommand) === null) {
    throw new NodeStartError(`--attest-gpu: ${gpuCommand} is not a program that can be run.`)
  }
}

export interface AttesterParts {
  readonly options: AttestOptions
  /** The identity's public key, base64url. */
  readonly identity: string
  readonly sealedKeys: SealedKeys
  readonly log: Log
}

/** Has this machine say what runs on it, for one client's nonce at a time (§38). */
export class Attester {
  /** Turns that have not ended, whether somebody still waits for them or not. */
  private turns = 0
  private last: Promise<unknown> = Promise.resolve()

  constructor(private readonly parts: AttesterParts) {}

  /** Rejects with `Problem`: nothing of what went wrong on this machine is told. */
  async attest(nonce: string, signal: AbortSignal): Promise<Attestation> {
    if (this.turns >= turnsMax) throw new Problem('capacity_exhausted', { retryAfterSeconds: busyRetrySeconds })
    this.turns++
    const leaving = new AbortController()
    const gone = AbortSignal.any([signal, leaving.signal])
    const turn = this.last.then(() => {
      gone.throwIfAborted()
      return this.collect(nonce, gone)
    })
    // A report that the kernel never gives holds up those behind it. Each of them ends after its own time, and keeps its place.
    this.last = turn.then(
      () => this.turns--,
      () => this.turns--,
    )
    try {
      return await within(this.parts.options.waitMs ?? evidenceMs, turn)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof NoAnswer) throw new Problem('upstream_timeout')
      this.parts.log.error('attestation_failed', { failure: failureName(error) })
      throw new Problem('upstream_error')
    } finally {
      leaving.abort()
    }
  }

  private async collect(nonce: string, signal: AbortSignal): Promise<Attestation> {
    const { identity, sealedKeys, options } = this.parts
    await sealedKeys.rotate()
    const key = sealedKeys.published().find(({ state }) => state === 'active')
    if (key === undefined) throw new CollateralError('there is no key')
    const [identityKey, keyConfig] = [identity, key.key_config].map((text) => decodeBase64Url(text) ?? new Uint8Array())
    if (identityKey === undefined || keyConfig === undefined) throw new CollateralError('there is no key')
    const data = reportDataOf(identityKey, keyConfig, hexToBytes(nonce))
    // The entry is this identity's alone: two agents of one machine do not meet in it.
    const name = `${product}-${bytesToHex(sha256(identityKey)).slice(0, 16)}`
    const { provider, report, certificates } = await tsmReport(options.folder, name, data)
    signal.throwIfAborted()
    const { collateral, gpuCommand } = options
    const gpu = gpuCommand === undefined ? null : await gpuEvidence(gpuCommand, gpuNonceOf(data), signal)
    const attestation: Attestation = {
      object: attestationObject,
      nonce,
      identity_public_key_ed25519: identity,
      key_config: key.key_config,
      provider,
      report: encodeBase64Url(report),
      certificates: certificates === null ? null : encodeBase64Url(certificates),
      collateral: collateral === undefined ? null : await readCollateral(collateral),
      gpu: gpu === null ? null : encodeBase64Url(gpu),
    }
    if (JSON.stringify(attestation).length > attestationBytesMax)
      throw new CollateralError('all in all it is too large')
    return attestation
  }
}
