// Light or dark theme: the system's, unless the user chose one. Runs before the first paint.

const KEY = "leveret.theme";
export const THEMES = ["auto", "light", "dark"];

export function chosenTheme() {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? "auto";
  } catch {
    return "auto"; // storage is disabled
  }
}

/** @param {string} theme */
export function chooseTheme(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // storage is disabled: the choice lasts until the page is closed
  }
  document.documentElement.dataset.theme = theme;
}

document.documentElement.dataset.theme = chosenTheme();
