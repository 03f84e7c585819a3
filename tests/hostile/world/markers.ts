/** Stands in everything that belongs to one request, many times; nothing else looks like it. */
const pattern = /xmkx[0-9a-f]{16}/g
const length = 20
const markerStart = 'xmkx'
/**
 * The beginning of any marker and of any secret (`secrets.ts`), for whoever looks for one at all: long enough that a signature or a
 * hash, of which a run of a million cases leaves millions, is not taken for one.
 */
export const anyMarker = { text: /xm[ks]x[0-9a-f]{8}/, bytesAsHex: /786d(6b|73)78(3[0-9]|6[1-6]){8}/ }

let made = 0
const run = Math.floor(Math.random() * 0xff_ff_ff_ff)

/** No two are alike, not those of two runs either. */
export function newMarker(): string {
  made++
  return markerStart + run.toString(16).padStart(8, '0') + made.toString(16).padStart(8, '0')
}

export const markersOf = (text: string): readonly string[] => [...new Set(text.match(pattern))]

/** Looks for markers in a stream of text. */
export class MarkerWatch {
  private tail = ''
  constructor(private readonly found: (marker: string) => void) {}

  push(text: string): void {
    const all = this.tail + text
    for (const marker of markersOf(all)) this.found(marker)
    // One short of a marker: what was found is not found again.
    this.tail = all.slice(1 - length)
  }
}
