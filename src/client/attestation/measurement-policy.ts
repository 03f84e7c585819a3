import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isObject, type Json } from '../../protocol/json/json-object.ts'

/** What its owner allows a node's machine to be. A file; nothing of it comes from a gateway or a node. */

/** Of a TDX quote, each 48 bytes in hex. */
const tdxFields = ['mr_td', 'rtmr0', 'rtmr1', 'rtmr2', 'rtmr3', 'mr_config_id', 'mr_owner', 'mr_owner_config'] as const
/** Of an SEV-SNP report in hex, and how many bytes each has. */
const snpFields = { measurement: 48, host_data: 32, id_key_digest: 48, author_key_digest: 48 } as const

export type TdxField = (typeof tdxFields)[number]
export type SnpField = keyof typeof snpFields

/** One image that may run. Fields that are absent may have any value. */
export interface AllowedImage<F extends string> {
  readonly name: string
  readonly fields: Readonly<Partial<Record<F, string>>>
}

/** The least security versions of an AMD processor's firmware. */
export interface SnpVersions {
  readonly bootloader: number
  readonly tee: number
  readonly snp: number
  readonly microcode: number
}

export interface MeasurementPolicy {
  readonly tdx: readonly AllowedImage<TdxField>[]
  readonly snp: readonly AllowedImage<SnpField>[]
  /** Which of Intel's statuses are good enough. */
  readonly tdxStatuses: readonly string[]
  /** null: the policy allows no SEV-SNP machine. */
  readonly snpLeast: SnpVersions | null
  /** Whether AMD's list of revoked certificates must be there. Intel's must always. */
  readonly snpListNeeded: boolean
  /** Whether a key may sign that AMD gave to a provider (VLEK), in place of the processor's own (VCEK). */
  readonly snpProviderKeys: boolean
  /** Whether a GPU must show what it is. */
  readonly gpuNeeded: boolean
  /** How long a verdict on a node's key is good, s. Then the node has to show its machine again. */
  readonly freshSeconds: number
}

/** A text that is no policy. */
export class MeasurementPolicyFault extends Error {
  override readonly name = 'MeasurementPolicyFault'
}

export const measurementPolicyBytesMax = 256 * 1024
const imagesMax = 256
const nameCharactersMax = 100
const freshSecondsDefault = 3_600
const freshSecondsMax = 86_400
/** As Intel's attributes of a platform are called. `Revoked` is never good enough. */
const statuses = [
  'UpToDate',
  'SWHardeningNeeded',
  'ConfigurationNeeded',
  'ConfigurationAndSWHardeningNeeded',
  'OutOfDate',
  'OutOfDateConfigurationNeeded',
]
const members = ['tdx', 'snp', 'tdx_tcb', 'snp_tcb_least', 'snp_revocation', 'snp_vlek', 'gpu', 'fresh_s']
const versionNames = ['bootloader', 'tee', 'snp', 'microcode'] as const
const hex = /^[0-9a-f]+$/

function fault(detail: string): never {
  throw new MeasurementPolicyFault(detail)
}

function onlyKnown(value: Json, known: readonly string[], where: string): void {
  const strange = Object.keys(value).find((name) => !known.includes(name))
  if (strange !== undefined) fault(`${where} has no member ${strange}. It may have ${known.join(', ')}`)
}

function imagesOf<F extends string>(
  given: unknown,
  where: string,
  bytes: ReadonlyMap<string, number>,
  needed: F,
): readonly AllowedImage<F>[] {
  if (given === undefined) return []
  if (!Array.isArray(given) || given.length > imagesMax) fault(`${where} must be a list of at most ${imagesMax} images`)
  return given.map((image: unknown, at) => {
    const place = `${where}[${at}]`
    if (!isObject(image)) return fault(`${place} must be an object`)
    onlyKnown(image, ['name', ...bytes.keys()], place)
    const { name = '', ...fields } = image
    if (typeof name !== 'string' || name.length > nameCharactersMax) fault(`${place}.name must be a short text`)
    for (const [field, value] of Object.entries(fields)) {
      const length = bytes.get(field) ?? 0
      if (typeof value !== 'string' || value.length !== 2 * length || !hex.test(value)) {
        fault(`${place}.${field} must be ${2 * length} hexadecimal digits in lower case`)
      }
    }
    if (!(needed in fields)) fault(`${place} needs ${needed}: without it, it would allow any image`)
    return { name: String(name), fields: fields as AllowedImage<F>['fields'] }
  })
}

function leastOf(given: unknown): SnpVersions | null {
  if (given === undefined) return null
  if (!isObject(given)) return fault('snp_tcb_least must be an object')
  onlyKnown(given, versionNames, 'snp_tcb_least')
  const read = (name: (typeof versionNames)[number]) => {
    const value = given[name]
    const whole = Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 255
    return whole ? Number(value) : fault(`snp_tcb_least.${name} must be a whole number from 0 to 255`)
  }
  return { bootloader: read('bootloader'), tee: read('tee'), snp: read('snp'), microcode: read('microcode') }
}

function oneOf<T extends string>(given: unknown, where: string, words: readonly [T, T]): T {
  const found = words.find((word) => word === (given ?? words[0]))
  return found ?? fault(`${where} must be ${words.map((word) => `"${word}"`).join(' or ')}`)
}

function statusesOf(given: unknown): readonly string[] {
  const wanted = given ?? ['UpToDate']
  if (!Array.isArray(wanted) || wanted.length === 0 || !wanted.every((one) => statuses.includes(one))) {
    fault(`tdx_tcb must be a list of ${statuses.join(', ')}`)
  }
  return wanted as readonly string[]
}

/** Throws `MeasurementPolicyFault`, which names the member that is wrong. */
export function parseMeasurementPolicy(text: string): MeasurementPolicy {
  const given = foreignJson(text)
  if (!isObject(given)) return fault('the file must contain a JSON object')
  onlyKnown(given, members, 'the file')
  const tdx = imagesOf<TdxField>(given.tdx, 'tdx', new Map(tdxFields.map((field) => [field, 48])), 'mr_td')
  const snp = imagesOf<SnpField>(given.snp, 'snp', new Map(Object.entries(snpFields)), 'measurement')
  if (tdx.length + snp.length === 0) fault('it needs at least one image in tdx or snp')
  const snpLeast = leastOf(given.snp_tcb_least)
  if (snp.length > 0 && snpLeast === null) {
    fault('snp_tcb_least is missing. Say which firmware of an AMD processor is new enough')
  }
  const fresh = given.fresh_s ?? freshSecondsDefault
  if (!Number.isInteger(fresh) || Number(fresh) < 1 || Number(fresh) > freshSecondsMax) {
    fault(`fresh_s must be a whole number of seconds from 1 to ${freshSecondsMax}`)
  }
  return {
    ...{ tdx, snp, snpLeast, tdxStatuses: statusesOf(given.tdx_tcb) },
    snpListNeeded: oneOf(given.snp_revocation, 'snp_revocation', ['needed', 'if_given']) === 'needed',
    snpProviderKeys: oneOf(given.snp_vlek, 'snp_vlek', ['refused', 'allowed']) === 'allowed',
    gpuNeeded: oneOf(given.gpu, 'gpu', ['ignored', 'needed']) === 'needed',
    freshSeconds: Number(fresh),
  }
}

/** The first image that fits; null: none. */
export function allowedImage<F extends string>(
  images: readonly AllowedImage<F>[],
  measured: Readonly<Record<F, string>>,
): AllowedImage<F> | null {
  const fits = ({ fields }: AllowedImage<F>) =>
    Object.entries(fields).every(([field, value]) => measured[field as F] === value)
  return images.find(fits) ?? null
}
