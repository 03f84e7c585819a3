/** What `write` and `toString` of a Buffer call for one encoding, without the choice: Bun's own, as Node's. */
interface Buffer {
  latin1Slice(start?: number, end?: number): string
  utf8Slice(start?: number, end?: number): string
  latin1Write(text: string, at?: number, length?: number): number
  utf8Write(text: string, at?: number, length?: number): number
}
