import { modelLogCharactersMax } from '../../protocol/wire/nodes/agent.ts'

/** The last lines with text of a program's output, at most `most` of 500 characters each, without colours and control characters. */
export function lastLines(text: string, most: number): string[] {
  const lines = Bun.stripANSI(text).split(/[\r\n]+/)
  const plain = lines.map((line) => line.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, ''))
  const full = plain.filter((line) => line.trim() !== '')
  return full.slice(-most).map((line) => line.slice(0, modelLogCharactersMax))
}
