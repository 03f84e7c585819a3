import { fromBase64url, toBase64url } from '../../protocol/signing/base64url.ts'
import { blocksMax, blockUnits, type Prompt } from './blocks.ts'

/** A prompt that a gateway has sent to a profile, as announced to the others: hashes and a length, never its text. */
export interface PlacementNotice {
  readonly profileId: string
  readonly prompt: Pick<Prompt, 'blocks' | 'units'>
}

/** PostgreSQL takes 7,999 bytes in one notice. */
export const noticeBytesMax = 7_900
/** A hash has 53 bits. */
const hashBytes = 7
const unitsMax = 2 ** 31 - 1
const lineShape = /^(mp_[0-9A-Z]{26}) ([1-9][0-9]{0,9}) ([A-Za-z0-9_-]+)$/
const placementsMax = 128

function packed(blocks: readonly number[]): string {
  const bytes = Buffer.alloc(blocks.length * hashBytes)
  for (const [at, block] of blocks.entries()) {
    const high = Math.floor(block / 2 ** 32)
    bytes.writeUIntBE(high, at * hashBytes, 3)
    bytes.writeUInt32BE(block >>> 0, at * hashBytes + 3)
  }
  return toBase64url(bytes)
}

function unpacked(text: string): readonly number[] | null {
  const length = Math.floor((text.length * 3) / 4)
  if (length % hashBytes !== 0 || length > blocksMax * hashBytes) return null
  const bytes = fromBase64url(text, length)
  if (bytes === null) return null
  const view = Buffer.from(bytes)
  const blocks = Array.from({ length: length / hashBytes }, (_, at) => {
    const from = at * hashBytes
    return view.readUIntBE(from, 3) * 2 ** 32 + view.readUInt32BE(from + 3)
  })
  return blocks.every((block) => Number.isSafeInteger(block)) ? blocks : null
}

const lineOf = ({ profileId, prompt }: PlacementNotice) =>
  `${profileId} ${Math.min(prompt.units, unitsMax)} ${packed(prompt.blocks)}`

/** Notices of at most `noticesMax`, each with the sender in its first line; the first placements are the ones that fit. */
export function noticesOf(
  sender: string,
  placements: Iterable<PlacementNotice>,
  noticesMax: number,
): readonly string[] {
  const notices: string[] = []
  let notice = sender
  let lines = 0
  for (const placement of placements) {
    const line = lineOf(placement)
    if (lines === placementsMax || notice.length + 1 + line.length > noticeBytesMax) {
      notices.push(notice)
      if (notices.length === noticesMax) return notices
      notice = sender
      lines = 0
    }
    notice += `\n${line}`
    lines++
  }
  return lines === 0 ? notices : [...notices, notice]
}

/** The placements in another gateway's notice; malformed lines are skipped. */
export function placementsIn(notice: string, self: string): readonly PlacementNotice[] {
  const [sender, ...lines] = notice.split('\n', placementsMax + 1)
  if (sender === self) return []
  return lines.flatMap((line) => {
    const [, profileId = '', digits, text = ''] = lineShape.exec(line) ?? []
    const [units, blocks] = [Number(digits), unpacked(text)]
    if (blocks === null || blocks.length === 0 || units > unitsMax || units < blocks.length * blockUnits) return []
    return [{ profileId, prompt: { blocks, units } }]
  })
}
