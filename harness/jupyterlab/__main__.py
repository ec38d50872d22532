from . import install

if __name__ == "__main__":
    print(f"{install()}: reload JupyterLab's page, and CUDA cells are highlighted as C++.")
