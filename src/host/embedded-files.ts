/** Files inside the program itself, by their path in the checkout. Empty here: `scripts/build.ts` puts its own in place. */
export const embeddedFiles: Readonly<Record<string, string>> = {}
