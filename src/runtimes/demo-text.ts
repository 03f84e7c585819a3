/**
 * The demo runtime's answer: it says that it is a demo, then plays with the user's words. The same words give the same
 * answer.
 */

const wordsPlayedMax = 24

export function demoAnswer(lastUserText: string): string {
  const said = lastUserText.split(/\s+/).filter((word) => word !== '')
  const played = said.slice(0, wordsPlayedMax)
  const lines = [
    'This is the demo text generator that comes with Penstock. It is not a language model and understands nothing. It plays with your words, so that you can watch a stream before you connect a model.',
  ]
  if (played.length > 0) {
    const letters = [...played.join('')].length
    const longest = played.reduce((best, word) => (word.length > best.length ? word : best))
    lines.push(
      `You sent ${said.length} ${said.length === 1 ? 'word' : 'words'}. ${said.length > played.length ? `The first ${played.length} have` : 'They have'} ${letters} letters, and the longest is "${longest}".`,
      `Backwards: ${played.toReversed().join(' ')}.`,
      `Sorted: ${played.toSorted((a, b) => a.localeCompare(b, 'en')).join(' ')}.`,
      `Each turned around: ${played.map((word) => [...word].toReversed().join('')).join(' ')}.`,
      `In capitals: ${played.join(' ').toUpperCase()}!`,
    )
  }
  lines.push(
    'To talk to a real model, start Ollama, LM Studio, llama.cpp or vLLM on this computer and restart Penstock, or register a model server on any of your computers with "penstock nodes add".',
  )
  return lines.join('\n\n')
}

/** About one word a piece, like the tokens of a model. */
export function demoTokens(text: string): readonly string[] {
  return text.match(/\s*\S{1,12}/g) ?? []
}
