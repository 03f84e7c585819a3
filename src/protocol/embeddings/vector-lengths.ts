/** Models of which a length is remembered, each with each length that was asked for. */
const modelsMax = 4_096
const quote = '"'
const base64Digits = 4
const base64Bytes = 3
const floatBytes = 4

/** Numbers of a vector that stands as JSON: a list of them, or the base64 of 32-bit floats. */
export function vectorLength(text: string): number {
  if (text.startsWith(quote)) {
    const digits = text.replaceAll(/["=]/g, '').length
    return Math.floor((digits * base64Bytes) / base64Digits / floatBytes)
  }
  let numbers = 1
  for (let at = text.indexOf(','); at !== -1; at = text.indexOf(',', at + 1)) numbers++
  return numbers
}

/** How long the vectors of each model are, as its answers had them since this process began: no model server says it. */
export class VectorLengths {
  private readonly known = new Map<string, number>()

  /** `asked`: the length that the request wanted; null: the model's own. */
  learn(modelId: string, asked: number | null, length: number): void {
    const key = keyOf(modelId, asked)
    if (!this.known.has(key) && this.known.size >= modelsMax) return
    this.known.set(key, length)
  }

  /** null: not seen. */
  of(modelId: string, asked: number | null): number | null {
    return this.known.get(keyOf(modelId, asked)) ?? null
  }
}

const keyOf = (modelId: string, asked: number | null) => `${asked ?? ''} ${modelId}`
