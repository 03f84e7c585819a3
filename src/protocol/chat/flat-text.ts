/**
 * The same text in one piece. JavaScript keeps a text that grew by `+` as a tree of its pieces until a character of it
 * is read. With pieces of four characters the tree takes twelve times the text's memory (measured). Reading the last
 * character flattens it.
 */
export const flatText = (text: string): string => (Number.isNaN(text.charCodeAt(text.length - 1)) ? '' : text)

/** Units that may be in pieces; beyond it a text is made one when its pieces are more than this part of it. */
export const looseUnitsMin = 4_096
export const looseShare = 16
